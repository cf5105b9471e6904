"""The replay memory, of parts: storage (a ring for each simulator), index (uniform or prioritised), n-step return."""
