"""Writes the generated parts of the documentation: `python docs/generate`."""
