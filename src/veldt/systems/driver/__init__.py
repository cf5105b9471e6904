"""The driver: runs a graph of roles, restarts them, assembles checkpoints and writes records."""
