"""Where roles run: shared memory, processes, and which cores they get."""
