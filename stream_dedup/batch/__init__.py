"""The same decision on files: filter, and judging a file's lines."""
