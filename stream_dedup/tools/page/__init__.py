"""The status page of a worker: what it shows, and how. Reports use its templates."""
