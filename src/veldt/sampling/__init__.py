"""Sampling: rollouts by a policy from envs, their observations, episodes and unrolls."""
