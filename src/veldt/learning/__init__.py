"""Learning: where batches come from, the learner, its optimiser, and its state in a checkpoint."""
