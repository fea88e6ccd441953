"""Item -> Fingerprint: tokens, shingles, MinHash keys, sketches, under one scheme."""
