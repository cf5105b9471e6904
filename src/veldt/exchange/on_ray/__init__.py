"""The edges between roles that are Ray actors: the same ends, over the transport."""
