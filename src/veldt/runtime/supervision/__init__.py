"""The supervision of roles, wherever they run: what is restarted, and when a run must end."""
