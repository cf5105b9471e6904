"""The verbs of the command line: `veldt train`, `veldt report` and the others."""
