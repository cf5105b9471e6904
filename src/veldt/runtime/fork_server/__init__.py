"""The server from which a process forks its children, what it does at its own start and at its end."""
