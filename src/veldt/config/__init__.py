"""Configuration: frozen dataclasses by section, what is checked about them, and warnings."""
