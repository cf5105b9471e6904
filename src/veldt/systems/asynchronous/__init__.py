"""Asynchronous learners on a central store (Mnih et al. 2016; Stooke & Abbeel, section 4.3)."""
