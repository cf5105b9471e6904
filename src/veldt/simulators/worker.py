"""The loop of a simulator process: wait for a row to step, step it, say so."""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Semaphore

import numpy as np

from veldt.errors import SimulatorError
from veldt.runtime.cores import pin
from veldt.runtime.processes import acquire, exit_with_parent, leave_signals_to_parent
from veldt.runtime.shared import SharedArrays
from veldt.simulators.messages import pack, unpack
from veldt.simulators.stepper import Stepper, StepperSettings, Unfinished
from veldt.simulators.trajectory import Trajectory

STEP, RESET_ENDED, CALL, STOP = range(4)  # commands


@dataclass(frozen=True)
class Wiring:
    """What a worker shares with its owner.

    `board` holds, by worker, `command` int64 [W, 2] (command, row), `progress` int64 [W, 3] (see `Stepper`) and
    `failed` bool [W]. `go` and `done` count commands given and finished.
    """

    worker: int
    board: SharedArrays
    go: Semaphore
    done: Semaphore
    core: int
    spin_s: float


def run(
    pipe: Connection, wiring: Wiring, settings: StepperSettings, slot: Trajectory, first: int, count: int
) -> None:
    """Entry point of the process."""
    exit_with_parent()
    leave_signals_to_parent()
    pin(wiring.core)
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    progress = wiring.board["progress"][wiring.worker]
    try:
        stepper = Stepper(settings, slot, first, count, progress)
    except Exception as error:
        pipe.send_bytes(_failure(error))
        return
    _one_thread()
    pipe.send_bytes(pack({"ready": True}))
    command, failed = wiring.board["command"][wiring.worker], wiring.board["failed"]
    while True:
        while not acquire(wiring.go, 60.0, wiring.spin_s):
            pass  # the process ends with its parent, so an idle worker needs no deadline of its own
        what, t = command.tolist()
        if what == STOP:
            stepper.close()
            return
        try:
            if what == STEP:
                stepper.step(t)
            elif what == RESET_ENDED:
                stepper.reset_ended()
            else:
                pipe.send_bytes(_answer(stepper, pipe.recv_bytes()))
        except Exception as error:
            failed[wiring.worker] = True
            pipe.send_bytes(_failure(error))
        wiring.done.release()


def _answer(stepper: Stepper, message: bytes) -> bytes:
    header, arrays = unpack(message)
    match header["call"]:
        case "start":
            prefixes = {str(b): prefix for b, prefix in stepper.start().items()}
            scores = {b: prefix.score for b, prefix in prefixes.items()}
            return pack({"scores": scores}, {b: prefix.actions for b, prefix in prefixes.items()})
        case "save":
            return pack({}, {str(b): np.frombuffer(state, np.uint8) for b, state in stepper.save().items()})
        case "notes":
            notes, stepper.notes = stepper.notes, []
            return pack({"notes": notes})
        case "rebuild":
            unfinished = {}
            for name, array in arrays.items():
                kind, b = name.split("/")
                unfinished[int(b)] = (
                    Unfinished(array.tobytes()) if kind == "state" else Unfinished(actions=array)
                )
            return pack({"notes": stepper.rebuild(unfinished, header["row"])})
    raise ValueError(f"unknown call {header['call']}")


def _failure(error: Exception) -> bytes:
    if isinstance(error, SimulatorError):
        known = {"simulator": error.simulator, "seed": error.seed, "details": error.details}
        return pack({"error": str(error), **known})
    return pack({"error": f"{type(error).__name__}: {error}", "details": traceback.format_exc()})


def _one_thread() -> None:
    """An environment that uses torch must not start a thread for each core in each process."""
    import sys

    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
