"""Before an experiment trains: what it will run, what is refused, and how long it takes."""
