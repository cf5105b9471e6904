"""The machines on which runs and measurements were made, as their own records say, and this one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from veldt.formatting import counted
from veldt.runs.machine import describe_machine
from veldt.runtime.cores import allowed_cores
from veldt.runtime.devices import choose_device, instruction_set, num_accelerators


def machines_of(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns each machine in words: of several, with the number of the records that are of it.

    A record is the content of a run's config.json, or what a measurement has printed. One that says nothing of its
    machine is left out.
    """
    found = Counter(words for record in records if (words := _in_words(record)))
    if len(found) < 2:
        return list(found)
    return [f"{words} ({number} of {found.total()})" for words, number in found.items()]


def this_machine() -> str:
    """Returns in words what decides the speed of runs here."""
    hardware = {
        **describe_machine(),
        "machine_cores": len(allowed_cores()),
        "instruction_set": instruction_set(),
    }
    accelerators = num_accelerators(choose_device("auto"))
    if accelerators:
        hardware["gpu"] = counted(accelerators, "accelerator", "accelerators")
    return _in_words({"hardware": hardware})


def _in_words(record: Mapping[str, Any]) -> str:
    """Returns the machine of a record; "" if it says nothing of it."""
    hardware, versions = (_section(record, name) for name in ("hardware", "versions"))
    if "processor" not in hardware:
        return ""
    processor = str(hardware["processor"])
    if "instruction_set" in hardware:
        processor += f" ({hardware['instruction_set']})"
    if isinstance(cores := hardware.get("machine_cores"), int):  # runs of older versions do not record it
        processor = f"{counted(cores, 'core', 'cores')} of {processor}"
    parts = [processor]
    if "memory_gb" in hardware:
        parts.append(f"{hardware['memory_gb']} GB")
    if "gpu" in hardware:
        parts.append(str(hardware["gpu"]))
    parts += [f"{name} {versions[name]}" for name in ("veldt", "torch") if name in versions]
    return ", ".join(parts)


def _section(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = record.get(name)
    return section if isinstance(section, Mapping) else {}
