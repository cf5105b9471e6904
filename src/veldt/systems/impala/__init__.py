"""IMPALA (Espeholt et al. 2018)."""
