"""Tracking: metrics, TensorBoard, progress on the screen, and time per stage."""
