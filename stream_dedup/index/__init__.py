"""The index: looks up the rows that share a key with an item. A row is one remembered item, numbered by arrival."""
