"""How much memory runs need, so that no more of them run side by side than fit into this machine's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from veldt.experiments.experiment import Job, Training
from veldt.experiments.planning.kinds import kind_of
from veldt.formatting import counted, gib
from veldt.runtime.cores import allowed_cores
from veldt.runtime.system_memory import available_memory
from veldt.systems.planning.sizes import PROCESS_BYTES


@dataclass(frozen=True)
class Memory:
    """The bytes that each job needs at its end, and those that are available before any has begun."""

    needed: Mapping[Job, int] = field(default_factory=dict)
    available: int = 0

    def fits(self, job: Job, running: Iterable[Job]) -> bool:
        """Returns whether a job fits beside the running ones. Alone, it may try: its run checks that itself."""
        beside = [self.needed.get(one, 0) for one in running]
        return not beside or sum(beside) + self.needed.get(job, 0) <= self.available

    def limit(self) -> str:
        """Returns a sentence where the cores allow more of the largest runs side by side than the memory; else ""."""
        cores = len(allowed_cores())
        several = [job for job in self.needed if 0 < 2 * job.cores <= cores]
        largest = max((self.needed[job] for job in several), default=0)
        most = max((cores // job.cores for job in several if self.needed[job] == largest), default=0)
        if largest * most <= self.available:
            return ""
        number = max(1, self.available // largest)
        return (
            f"No more than {counted(number, 'run', 'runs')} with a replay buffer side by side, since each needs up to "
            f"{gib(largest)} of memory, and {gib(self.available)} are available"
        )


ENOUGH = Memory()  # for all jobs


def memory_for(jobs: Sequence[Job], buffers: Mapping[str, int]) -> Memory:
    """Returns what the jobs need of this machine's memory; `buffers` are the bytes of replay buffers by `kind_of`."""
    needed = {
        job: PROCESS_BYTES + (buffers[kind_of(job)] if isinstance(job, Training) else 0) for job in jobs
    }
    return Memory(needed, available_memory())
