"""What is learned: the network's heads, how to act, the loss. No process, queue, device or shared memory."""
