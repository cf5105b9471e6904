"""The loop of an env process: takes the next command, executes it, and signals its completion."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Semaphore

import numpy as np

from veldt.envs.action_replay import Unfinished
from veldt.envs.stepper import Stepper
from veldt.envs.stepper_settings import StepperSettings
from veldt.envs.trajectory import Trajectory
from veldt.errors import EnvError, described, traceback_of
from veldt.runtime.cores import pin
from veldt.runtime.messages import pack, unpack
from veldt.runtime.processes import acquire, leave_signals_to_parent
from veldt.runtime.shared import SharedArrays
from veldt.runtime.stack_dump import enable_stack_dump

STEP, RESET_ENDED, CALL, STOP = range(4)  # commands; only STEP concerns a single group
RING = 4  # a worker has at most one unfinished command per group, and STOP


@dataclass(frozen=True)
class WorkerArgs:
    """What a worker shares with its owner.

    `arrays` holds, by worker, `commands` int64 [W, RING, 3] (command, group, row), `progress` int64 [W, 4] (see
    `Stepper`) and `failed` bool [W]. The semaphore `go` counts the commands given, `done[group]` the finished commands
    of a group (a call is answered through the pipe instead).
    """

    worker: int
    arrays: SharedArrays
    go: Semaphore
    done: Sequence[Semaphore]
    core: int
    spin_s: float


def run(
    pipe: Connection, own: WorkerArgs, settings: StepperSettings, slot: Trajectory, parts: Sequence[slice]
) -> None:
    """Entry point of the process. `parts` are this process's envs in each group."""
    leave_signals_to_parent()
    pin(own.core)
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    progress = own.arrays["progress"][own.worker]
    trace = enable_stack_dump()
    try:
        steppers = [Stepper(settings, slot, part, progress) for part in parts]
    except Exception as error:
        pipe.send_bytes(_failure(error))
        return
    _one_thread()
    pipe.send_bytes(pack({"trace": trace}))
    commands, failed = own.arrays["commands"][own.worker], own.arrays["failed"]
    for turn in itertools.cycle(range(RING)):
        while not acquire(own.go, 60.0, own.spin_s):
            pass  # the process ends with its parent, so waiting for a command needs no deadline
        what, group, t = commands[turn].tolist()
        if what == STOP:
            break
        try:
            if what == STEP:
                steppers[group].step(t)
            elif what == RESET_ENDED:
                for stepper in steppers:
                    stepper.reset_ended()
            else:
                pipe.send_bytes(_answer(steppers, pipe.recv_bytes()))
        except Exception as error:
            failed[own.worker] = True
            pipe.send_bytes(_failure(error))
        if what != CALL:
            own.done[group].release()
    for stepper in steppers:
        stepper.close()


def _answer(steppers: Sequence[Stepper], message: bytes) -> bytes:
    header, arrays = unpack(message)
    match header["call"]:
        case "start":
            prefixes = {str(b): prefix for stepper in steppers for b, prefix in stepper.start().items()}
            scores = {b: prefix.score for b, prefix in prefixes.items()}
            return pack({"scores": scores}, {b: prefix.actions for b, prefix in prefixes.items()})
        case "save":
            states = {str(b): state for stepper in steppers for b, state in stepper.save().items()}
            return pack({}, {b: np.frombuffer(state, np.uint8) for b, state in states.items()})
        case "notes":
            return pack({"notes": [note for stepper in steppers for note in stepper.take_notes()]})
        case "rebuild":
            unfinished = {}
            for name, array in arrays.items():
                kind, b = name.split("/")
                unfinished[int(b)] = (
                    Unfinished(array.tobytes()) if kind == "state" else Unfinished(actions=array)
                )
            each = zip(steppers, header["rows"], strict=True)
            return pack({"notes": [note for stepper, t in each for note in stepper.rebuild(unfinished, t)]})
    raise ValueError(f"unknown call {header['call']}")


def _failure(error: Exception) -> bytes:
    if isinstance(error, EnvError):
        known = {"env": error.env, "seed": error.seed, "details": error.details}
        return pack({"error": str(error), **known})
    return pack({"error": described(error), "details": traceback_of(error)})


def _one_thread() -> None:
    """Limits torch to one thread, if the environment uses it: else each process would start one per core."""
    import sys

    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
