"""The replay buffer, of parts: storage (a ring for each env), index (uniform or prioritised), n-step return."""
