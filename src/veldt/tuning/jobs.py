"""How many trials run side by side where the user does not say."""

from __future__ import annotations

from veldt.config.run_request import RunRequest
from veldt.experiments.planning.memory import bytes_of
from veldt.formatting import counted, gib
from veldt.runtime.cores import allowed_cores
from veldt.runtime.devices import choose_device
from veldt.runtime.system_memory import available_memory


def choose_jobs(request: RunRequest) -> tuple[int, str]:
    """Returns how many trials of this run go side by side, and why, as a sentence for the user."""
    config = request.config
    if not config.in_one_process:
        return 1, "One trial at a time, since each has several processes."
    if choose_device(config.run.device).type != "cpu":
        return 1, "One trial at a time, since each takes the same GPU; --jobs sets another number."
    cores, needed, available = len(allowed_cores()), bytes_of(request), available_memory()
    jobs = max(1, min(cores, available // needed))
    number = "One trial at a time" if jobs == 1 else f"{jobs} trials side by side"
    if jobs == cores:
        return jobs, f"{number}, one on each of {counted(cores, 'core', 'cores')}."
    return jobs, (
        f"{number}, since each needs about {gib(needed)} of memory, and {gib(available)} are available; "
        "--jobs sets another number."
    )
