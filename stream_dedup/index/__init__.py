"""Fingerprint keys -> candidate rows."""
