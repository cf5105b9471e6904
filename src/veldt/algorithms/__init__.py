"""Algorithms: the network's heads, how to act, and the loss. No process, queue, device or shared memory."""
