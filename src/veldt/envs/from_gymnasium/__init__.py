"""Any Gymnasium environment as an env of a run: its steps, and its observations as arrays."""
