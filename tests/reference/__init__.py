"""The specification of fingerprint and decision, in plain Python; the core must give the same, bit for bit."""
