"""Exports: the policy of a run as the files of a model repository, and as a graph that runs without veldt."""
