"""Evaluation: whole episodes by a trained policy, recorded start states, videos, playing by hand."""
