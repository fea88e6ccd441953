"""Read files of any format as items, line by line."""
