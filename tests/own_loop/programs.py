"""Functions of programs, which tests run as processes."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np
import torch
from torch import nn

import veldt

ROW = {"number": ((), "int64"), "from_whom": ((), "int64")}


def network() -> nn.Module:
    return nn.Linear(2, 1, bias=False)


def zeros() -> nn.Module:
    made = network()
    nn.init.zeros_(made.weight)
    return made


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1.0)


def pushes(process: veldt.RoleProcess, gradients: Any, times: int) -> dict[str, Any]:
    """Each gradient is -1 for both weights."""
    own = network()
    for _ in range(times):
        gradients.pull(own)
        own.zero_grad()
        (-own(torch.ones(1, 2))).sum().backward()
        gradients.push(own)
    end = time.monotonic() + 60
    while gradients.pull(own) < times * process.count and time.monotonic() < end and process.running:
        process.sleep(0.005)
    return {"version": gradients.version, "weight": own.weight, "discarded": gradients.discarded}


def publishes(process: veldt.RoleProcess, weights: Any) -> int:
    own = zeros()
    for version in range(5):
        with torch.no_grad():
            own.weight.fill_(version)
        weights.publish(own)
    return int(weights.version)


def pulls(process: veldt.RoleProcess, weights: Any) -> list[float]:
    own, seen = network(), list[float]()
    while process.running and weights.version < 4:
        version = weights.pull(own)
        assert own.weight.flatten().tolist() == [version, version]
        seen.append(version)
    return seen


def publishes_twice_the_same(process: veldt.RoleProcess, weights: Any) -> None:
    own = zeros()
    for value in (1, 2):
        with torch.no_grad():
            own.weight.fill_(value)
        weights.publish(own, version=5)
    waits(process)


def pulls_the_second(process: veldt.RoleProcess, weights: Any) -> list[float]:
    own = network()
    while process.running and not (weights.pull(own) == 5 and own.weight.flatten().tolist() == [2, 2]):
        process.sleep(0.005)
    return [weights.version, *own.weight.flatten().tolist()]


def adds(process: veldt.RoleProcess, replay: Any, rows: int) -> None:
    for number in range(rows):
        replay.add(number=number, from_whom=process.index)


def samples(process: veldt.RoleProcess, replay: Any, batches: int) -> dict[str, Any]:
    found = np.zeros((2, 1000), np.int64)
    sizes = []
    for _ in range(batches):
        if (batch := replay.sample()) is None:
            break
        np.add.at(found, (batch["from_whom"].numpy(), batch["number"].numpy()), 1)
        sizes.append(len(batch))
    return {"found": found, "sizes": sizes, "rows": len(replay)}


def takes_none(process: veldt.RoleProcess, replay: Any) -> None:
    while process.running:
        assert len(replay) <= 400
        process.sleep(0.01)


def adds_episodes(process: veldt.RoleProcess, replay: Any) -> None:
    for length in (1, 2, 3, 4):
        replay.add(reward=torch.full((length,), float(length)), observation=[[length, length]] * length)


def samples_episodes(process: veldt.RoleProcess, replay: Any) -> dict[str, Any]:
    while process.running and len(replay) < 4:
        process.sleep(0.005)
    batch = replay.sample()
    length = batch.length[:, None]
    want = torch.where(batch.mask, length, 0).float()
    return {
        "equal": bool((batch["reward"] == want).all() and (batch["observation"] == want[..., None]).all()),
        "shape": list(batch["observation"].shape),
        "longest": int(batch.length.max()),
    }


def renews(process: veldt.RoleProcess, replay: Any) -> dict[str, Any]:
    """Gives row 7 of process 0 almost all priority, as soon as it draws it."""
    while (batch := replay.sample(beta=1.0)) is not None:
        wanted = (batch["number"] == 7) & (batch["from_whom"] == 0)
        replay.update(torch.where(wanted, 1e6, 1e-6))
        if wanted.float().mean() > 0.9:
            return {"weight": batch.weight[wanted].max(), "rest": batch.weight.max()}
    return {}


def raises(process: veldt.RoleProcess) -> None:
    process.sleep(0.01)
    raise ZeroDivisionError("two by nothing")


def exits(process: veldt.RoleProcess) -> None:
    raise SystemExit(3)


def waits(process: veldt.RoleProcess) -> str:
    while process.running:
        process.sleep(0.01)
    return "asked"


def hangs(process: veldt.RoleProcess) -> None:
    time.sleep(1000)


def kills_itself(process: veldt.RoleProcess) -> int:
    if not process.restart_count:
        os.kill(os.getpid(), signal.SIGKILL)
    return process.restart_count


def stops(process: veldt.RoleProcess) -> None:
    process.log(answer=42, mean=1.5)
    process.stop_all("the answer is known")


def stops_while_all_are_ending(process: veldt.RoleProcess) -> None:
    while process.running:
        process.sleep(0.01)
    process.stop_all("too late")


def raises_at_the_end(process: veldt.RoleProcess) -> None:
    process.stop_all("done")
    while process.running:
        process.sleep(0.01)
    raise ValueError("could not save")


def returns_what_cannot_be_sent(process: veldt.RoleProcess) -> Any:
    process.stop_all("done")
    return {"history": [(1, 2.0), (3, {4.0})]}


def returns_values(process: veldt.RoleProcess) -> Any:
    nested = {
        "history": [(1, 2.0), (3, 4.0)],
        1: {"deep": [np.arange(3), torch.ones(2, dtype=torch.bfloat16)]},
    }
    return {"network": zeros().state_dict(), "nested": nested, "mean": torch.tensor(0.5)}


def stops_and_goes_on(process: veldt.RoleProcess) -> None:
    process.stop_all("done")
    time.sleep(1000)


def sleeps(process: veldt.RoleProcess) -> str:
    process.sleep(1000)
    return "asked"


def interrupts_and_raises(process: veldt.RoleProcess, program: int) -> None:
    os.kill(program, signal.SIGINT)
    waits(process)
    raise ValueError("could not save")


def kills_server(process: veldt.RoleProcess, gradients: Any, name: str) -> None:
    import psutil

    own = zeros()
    gradients.pull(own)
    for other in psutil.Process(os.getppid()).children():
        if other.name() == name[:15]:
            other.kill()
    while process.running:
        (-own(torch.ones(1, 2))).sum().backward()
        gradients.push(own)


def pulls_alone(process: veldt.RoleProcess, weights: Any) -> None:
    weights.pull(network())


def publishes_nothing(process: veldt.RoleProcess, weights: Any) -> None:
    while process.running:
        process.sleep(0.01)


def publishes_other(process: veldt.RoleProcess, weights: Any) -> None:
    weights.publish(nn.Linear(3, 1, bias=False))


def adds_another_row(process: veldt.RoleProcess, replay: Any) -> None:
    replay.add(number=1.5, from_whom=0)


def adds_too_little(process: veldt.RoleProcess, replay: Any) -> None:
    replay.add(number=1, from_whom=0)
    while process.running:
        process.sleep(0.01)


def pushes_nan(process: veldt.RoleProcess, gradients: Any) -> None:
    own = network()
    gradients.pull(own)
    (own(torch.ones(1, 2)) * float("nan")).sum().backward()
    gradients.push(own)
