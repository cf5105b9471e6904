"""Configuration: frozen dataclasses by section, their checks, and warnings."""
