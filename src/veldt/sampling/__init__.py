"""Sampling: rollouts of a policy in envs, their observations, episodes and unrolls."""
