"""Learning: sources of batches, the learner, its optimiser, and its state in a checkpoint."""
