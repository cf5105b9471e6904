"""The code of a user: found by its name, imported, and remembered as trusted."""
