"""Observability of the worker: metrics, health, logs, and the HTTP server, which serves the status page, too."""
