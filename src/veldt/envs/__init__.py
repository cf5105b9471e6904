"""Envs behind one interface: in the calling process, in worker processes, and native Atari."""
