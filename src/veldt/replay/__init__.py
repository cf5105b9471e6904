"""The replay buffer: storage (one ring per env), sampling strategy (uniform or prioritised), n-step return."""
