"""Roles that hosts on other nodes import by name."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from veldt.errors import VeldtError
from veldt.runtime.role_messages import RoleMessage
from veldt.runtime.roles import Control
from veldt.runtime.watchdog import within


@dataclass(frozen=True)
class Working(RoleMessage, kind="working"):
    attempt: np.ndarray
    task: str
    peers: list[int]


@dataclass(frozen=True)
class Finishing(RoleMessage, kind="finishing"):
    pass


@dataclass(frozen=True)
class Never(RoleMessage, kind="never"):
    pass


def works(control: Control, task: str) -> None:
    attempt, peers = control.restart_count, [control.peers.index, control.peers.count]
    control.send(Working(np.array([attempt]), task, peers))
    while not control.stopping:
        control.heartbeat()
        time.sleep(0.01)
    control.send(Finishing())


def fails(control: Control) -> None:
    control.heartbeat()
    raise ValueError("two and two are five")


def refuses(control: Control) -> None:
    raise VeldtError("it cannot be")


def hangs_at_first(control: Control) -> None:
    if control.restart_count:
        works(control, "again")
    time.sleep(1000)


def is_overdue(control: Control) -> None:
    with within(0.5, lambda: 0, lambda: "the answer is overdue"):
        time.sleep(1000)
