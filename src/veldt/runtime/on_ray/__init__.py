"""Roles as Ray actors: on this machine, or on all nodes of a cluster. Needs `pip install 'veldt[cluster]'`."""
