"""Fingerprints of items under one scheme: signatures to compare and store, and keys to look up candidates.

fingerprint passes items to the core (kernel: its structs and calls); scheme says what is made; characters and letters
have the tables that fold a text, simhash the weights and keys of SimHashes, packed_sets what the index stores of exact
sets. By the path of a text, the core has core/text.c, sentences.c, words.c, shingles.c
and, for all of it, fingerprint.c.
"""
