"""Fingerprints of items under one scheme: signatures to compare and store, and keys to look up candidates.

fingerprint.py passes items to the core; kernel.py has the core's structs and calls. scheme.py says what a fingerprint
consists of. characters.py has the tables that fold a text, simhash.py the keys of SimHashes. The core follows the path
of a text: text.c, sentences.c, words.c and shingles.c, all called by fingerprint.c.
"""
