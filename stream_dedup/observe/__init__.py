"""Observability of the worker: metrics, health, logs, and the HTTP server with the status page."""
