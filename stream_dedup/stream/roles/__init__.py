"""The roles of a worker: the whole work in one process (`all`), or one of the three steps of split mode."""
