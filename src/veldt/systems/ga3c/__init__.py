"""GA3C (Babaeizadeh et al. 2017)."""
