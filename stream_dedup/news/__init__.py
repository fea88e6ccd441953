"""Bytes of a record -> Item."""
