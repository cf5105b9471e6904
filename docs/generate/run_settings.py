"""Digests of the settings of an experiment's runs, and which settings are others now than they were."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

from veldt.config.stored_config import to_dict
from veldt.config.train_config import RESUMABLE, SECTIONS
from veldt.experiments.experiment import Evaluation, Job, Measurement, Training
from veldt.recipes import find
from veldt.recipes.overrides import build_config
from veldt.runs import strict_json
from veldt.setting_text import flag

# A run that is made decides these by its machine, unless they are given.
_BY_MACHINE = ("device", "precision", "alternate", "env_backend", "processes")
# These do not decide what is learned.
_LEFT_OUT = {*RESUMABLE, "seed", "env_timeout", "on_env_error", "max_restarts"} - {"steps", "until"}
# Returns the resolved settings of a run by section, and those that were given by name.
Settings = Callable[[Training], tuple[Mapping[str, Any], Mapping[str, Any]]]


@contextlib.contextmanager
def with_cores(cores: int) -> Iterator[None]:
    """Lets an experiment have the runs that it has on a machine with so many cores."""
    with mock.patch("os.sched_getaffinity", lambda _: set(range(cores)), create=True):
        yield


def digests(jobs: Sequence[Job], settings: Settings) -> dict[str, Any]:
    """Returns a digest of which jobs there are, "runs", and one of the values of each setting in all of them."""
    by_name: dict[str, dict[str, Any]] = {}
    first = {_kind(job): job for job in reversed(jobs)}
    for kind, job in first.items():
        if isinstance(job, Training):
            for name, value in _flat(*settings(job)).items():
                by_name.setdefault(name, {})[kind] = value
    settings_of = {name: _digest(values) for name, values in sorted(by_name.items())}
    return {"runs": _digest(sorted(first)), "settings": settings_of}


def changes(jobs: Sequence[Job], before: Mapping[str, Any]) -> str:
    """Returns a sentence on what is not as it was; "" if nothing is known.

    A setting that was added or removed since is not compared: its value may be what was done before without it.

    Args:
        before: what `digests` returned then.
    """
    again = "the same command may show something else now"
    now = digests(jobs, resolved_now)
    if now["runs"] != before["runs"]:
        return f"The experiment has other runs since: {again}."
    settings = now["settings"]
    changed = [name for name, digest in before["settings"].items() if settings.get(name, digest) != digest]
    names = ", ".join(f"`{flag(name.partition('.')[2] or name)}`" for name in changed)
    return f"Values of {names} in its runs have changed since: {again}." if changed else ""


def resolved_now(job: Training) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Returns the settings of a run that is begun now."""
    return to_dict(build_config(find(job.recipe).draft(job.env), job.settings)), job.settings


def _kind(job: Job) -> str:
    """Returns what jobs have in common that differ in their seed only."""
    if isinstance(job, Measurement):
        return " ".join(job.words)
    if isinstance(job, Evaluation):
        return f"{_kind(job.of)}, from recorded starts"
    return f"{job.chart}, {job.group}: {job.recipe} on {job.env}"


def _flat(resolved: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings by `section.name` that decide what is learned."""
    flat = {name: resolved[name] for name in ("algorithm", "system")}
    for section in SECTIONS:
        for name, value in (resolved.get(section) or {}).items():
            if name not in _LEFT_OUT:
                flat[f"{section}.{name}"] = given.get(name) if name in _BY_MACHINE else value
    return flat


def _digest(value: Any) -> str:
    return hashlib.sha256(strict_json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
