"""Gorila (Nair et al. 2015)."""
