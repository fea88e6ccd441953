"""What the worker does, for people and machines: metrics, health, and the HTTP server that shows both."""
