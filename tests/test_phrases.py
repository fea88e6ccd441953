"""Commands in messages can be run as they stand."""
