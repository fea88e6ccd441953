"""The index: from keys of fingerprints to candidate rows."""
