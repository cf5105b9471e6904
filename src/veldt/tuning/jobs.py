"""How many trials run side by side where the user does not say."""

from __future__ import annotations

from veldt.formatting import counted, gib
from veldt.runtime.cores import allowed_cores
from veldt.runtime.devices import choose_device
from veldt.runtime.system_memory import available_memory
from veldt.systems.planning.sizes import PROCESS_BYTES, buffer_bytes
from veldt.tuning.request import TuneRequest


def choose_jobs(request: TuneRequest) -> tuple[int, str]:
    """Returns how many trials of a search go side by side, and why, as a sentence for the user."""
    config = request.fixed.config
    if not config.in_one_process:
        return 1, "One trial at a time, since each has several processes."
    if choose_device(config.run.device).type != "cpu":
        return 1, "One trial at a time, since each takes the same GPU; --jobs sets another number."
    needed = PROCESS_BYTES + buffer_bytes(config, request.spec)
    cores, available = len(allowed_cores()), available_memory()
    jobs = max(1, min(cores, available // needed))
    number = "One trial at a time" if jobs == 1 else f"{jobs} trials side by side"
    if jobs == cores:
        return jobs, f"{number}, one on each of {counted(cores, 'core', 'cores')}."
    return jobs, (
        f"{number}, since each needs about {gib(needed)} of memory, and {gib(available)} are available; "
        "--jobs sets another number."
    )
