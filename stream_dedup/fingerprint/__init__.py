"""Fingerprints of items under one scheme: tokens, shingles, MinHash or SimHash, signatures and index keys.

By the path of a text: characters (classes, folding, Chinese words), tokens, shingles (and their MinHash: sketch, keys,
anchors), word_filter (words, numbers), sentences (passages), simhash (with its keys) and packed_sets, all called by the
kernel; fingerprint passes items to the kernel; scheme says what is made; bits has what compiled code shares.
"""
