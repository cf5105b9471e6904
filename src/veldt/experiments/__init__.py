"""Experiments: figures and tables of the papers, each drawn by one command from runs of this machine."""
