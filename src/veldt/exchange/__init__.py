"""The edges between roles: what they carry, and how."""
