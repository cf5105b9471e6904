"""Evaluation: episodes of a trained policy, recorded start states, videos, playing by hand."""
