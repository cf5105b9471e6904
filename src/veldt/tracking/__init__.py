"""Tracking: metrics, TensorBoard, progress on the screen, and where the time goes."""
