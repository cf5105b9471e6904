"""Envs behind one interface: in this process, in worker processes, native Atari."""
