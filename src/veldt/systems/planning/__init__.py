"""Planning: measures the machine and decides what was left to `auto`."""
