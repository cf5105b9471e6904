"""Planning: measures the machine and decides the settings that are `auto`."""
