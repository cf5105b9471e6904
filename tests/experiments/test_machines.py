"""A page of results names the machines of its runs, not the one that draws it."""

from __future__ import annotations

from typing import Any

from veldt.experiments.machines import machines_of, this_machine


def record(**hardware: Any) -> dict[str, Any]:
    return {"versions": {"python": "3.12", "veldt": "0.1.0", "torch": "2.9"}, "hardware": hardware}


SMALL = record(processor="Chip", machine_cores=2, memory_gb=25, cores=1, instruction_set="AVX512", host="me")
LARGE = record(processor="Chip", machine_cores=16, memory_gb=128, gpu="H100")
OLD = {"hardware": {"processor": "Chip", "memory_gb": 25, "cores": 1}}


def test_a_machine_has_its_cores_memory_accelerator_and_versions() -> None:
    assert machines_of([SMALL]) == ["2 cores of Chip (AVX512), 25 GB, veldt 0.1.0, torch 2.9"]
    assert machines_of([LARGE]) == ["16 cores of Chip, 128 GB, H100, veldt 0.1.0, torch 2.9"]
    assert machines_of([OLD]) == ["Chip, 25 GB"]


def test_several_machines_have_the_numbers_of_their_runs() -> None:
    assert machines_of([SMALL, LARGE, SMALL]) == [
        "2 cores of Chip (AVX512), 25 GB, veldt 0.1.0, torch 2.9 (2 of 3)",
        "16 cores of Chip, 128 GB, H100, veldt 0.1.0, torch 2.9 (1 of 3)",
    ]


def test_records_without_a_machine_are_left_out() -> None:
    assert machines_of([{}, {"hardware": None}, {"hardware": {}, "versions": {"torch": "2.9"}}]) == []


def test_this_machine_is_known_by_what_decides_its_speed() -> None:
    assert " of " in this_machine() and " GB" in this_machine() and "torch" not in this_machine()
