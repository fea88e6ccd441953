"""Fingerprints of items under one scheme: tokens, shingles, MinHash or SimHash, signatures and index keys."""
