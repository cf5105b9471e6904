"""The edges between roles: what travels, and how."""
