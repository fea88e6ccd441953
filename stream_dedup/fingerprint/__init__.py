"""Fingerprints of items under one scheme: tokens, shingles, MinHash or SimHash, signatures and index keys.

By the path of a text: characters (classes, folding, Chinese words), tokens, shingles and word_filter (words, numbers),
sentences (passages), minhash or simhash (sketch, keys, anchors) and packed_sets, all called by the kernel; fingerprint
passes items to the kernel; scheme and layout say what is made; bits has what compiled code shares.
"""
