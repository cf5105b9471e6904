"""Synchronous sampling and learning, by one learner or several (Stooke & Abbeel, sections 4.1 and 4.2)."""
