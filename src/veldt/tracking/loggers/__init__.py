"""Loggers: what the metrics of a run are written to. One protocol, several implementations."""
