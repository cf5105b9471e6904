"""Processes of roles: shared memory, messages, supervision, and the assignment of cores."""
