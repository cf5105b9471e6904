"""How many trials run side by side where the user does not say."""

from __future__ import annotations

from veldt.algorithms.base import OffPolicy
from veldt.config.run_request import RunRequest
from veldt.envs.arrangement import probe_spec
from veldt.formatting import counted, gib
from veldt.replay.size import replay_bytes
from veldt.runtime.cores import allowed_cores
from veldt.runtime.devices import choose_device
from veldt.runtime.system_memory import available_memory

_PROCESS_BYTES = 2**29  # of a run without its replay buffer: Python, torch, the envs and the network


def choose_jobs(request: RunRequest) -> tuple[int, str]:
    """Returns how many trials of this run go side by side, and why, as a sentence for the user."""
    config = request.config
    if not config.in_one_process:
        return 1, "One trial at a time, since each has several processes."
    if choose_device(config.run.device).type != "cpu":
        return 1, "One trial at a time, since each takes the same GPU; --jobs sets another number."
    cores, needed, available = len(allowed_cores()), _bytes_of(request), available_memory()
    jobs = max(1, min(cores, available // needed))
    number = "One trial at a time" if jobs == 1 else f"{jobs} trials side by side"
    if jobs == cores:
        return jobs, f"{number}, one on each of {counted(cores, 'core', 'cores')}."
    return jobs, (
        f"{number}, since each needs about {gib(needed)} of memory, and {gib(available)} are available; "
        "--jobs sets another number."
    )


def _bytes_of(request: RunRequest) -> int:
    """Returns about how much memory a run of one process needs."""
    config = request.config
    if config.replay is None:
        return _PROCESS_BYTES
    spec = probe_spec(request.source, config.atari)
    algorithm = config.make_algorithm(spec.action)
    assert isinstance(algorithm, OffPolicy)  # it has a replay buffer
    return _PROCESS_BYTES + replay_bytes(spec, config.envs.num_envs, config.replay, algorithm.returns)
