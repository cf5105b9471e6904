"""The user's own code: found by name, imported, and recorded as trusted."""
