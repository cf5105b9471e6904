"""Ape-X (Horgan et al. 2018)."""
