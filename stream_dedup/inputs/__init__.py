"""Read files of any format as items, line by line, for `check` and for the tools."""
