"""Work on files with the decision of the stream: `filter`, `pairs`, and judging the lines of a file."""
