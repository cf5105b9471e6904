"""Pieces for a training loop of one's own: processes, a gradient server, a model server, a distributed buffer.

    run_roles --graph--> systems.driver --starts--> the user's functions, and the pieces' own processes

A piece adds roles and edges to the graph, and opens its end in each process that takes it (`piece.Piece`).
"""

from veldt.own_loop.distributed_buffer import DistributedBuffer
from veldt.own_loop.gradient_server import GradientServer
from veldt.own_loop.model_server import ModelServer
from veldt.own_loop.processes import Processes
from veldt.own_loop.program import Finished
from veldt.own_loop.role_process import RoleProcess
from veldt.own_loop.run import run_roles

__all__ = [
    "DistributedBuffer",
    "Finished",
    "GradientServer",
    "ModelServer",
    "Processes",
    "RoleProcess",
    "run_roles",
]
