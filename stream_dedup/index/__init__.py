"""The index: sorted runs of keys and a tree of recent ones, from which candidates are looked up."""
