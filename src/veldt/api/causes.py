"""Why a run that is trained again may have other results than the first time, as far as is known before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from veldt.algorithms.registry import ALGORITHMS
from veldt.config.plan_digest import plan_digest
from veldt.config.run_code import Admitted
from veldt.config.system_registry import SYSTEMS
from veldt.config.train_config import TrainConfig
from veldt.networks.own import PARTS
from veldt.runs.directory import RunDirectory
from veldt.runs.machine import versions
from veldt.runtime.devices import instruction_set
from veldt.setting_text import flag

VERSIONS = "versions"  # the kind of the event of a resume with other versions than the run began with


def likely_cause(
    directory: RunDirectory,
    stored: Mapping[str, Any],
    summary: Mapping[str, Any],
    config: TrainConfig,
    code: Admitted,
) -> str | None:
    """Returns in words what can change the results and is not as it was in the first run; None if nothing is known.

    Args:
        directory: the first run's.
        stored: the content of its config.json.
        summary: the content of its summary.json.
        config: the configuration that its config.json describes.
        code: the user's code with which it is trained again.
    """
    known = [*_other_code(config, code), *other_versions(stored), *_resumes(directory, stored, config)]
    if not known and summary.get("plan_digest") != plan_digest(config):
        known.append(
            "the first run ended with another plan than that of its config.json (plan_digest in summary.json): the "
            "file was changed, or the run ended with other versions or on another processor"
        )
    return "; ".join(known) or None


def _other_code(config: TrainConfig, code: Admitted) -> Iterator[str]:
    if code.source.name != config.env:
        yield _changed("the environment", config.env, code.source.name)
    own = code.own.names()
    for part in PARTS:
        before, now = getattr(config.network, part), own.get(part) or getattr(code.config.network, part)
        if before != now:
            yield _changed(f"--{part}", before, now)


def other_versions(stored: Mapping[str, Any]) -> Iterator[str]:
    """Yields which versions, and whether the processor's instructions, are not those of a run's config.json."""
    before = stored.get("versions", {})
    now = versions(before)
    for name in sorted(before):
        if before[name] != now.get(name):
            yield _changed(name, before[name], now.get(name, "missing"))
    processor = stored.get("hardware", {}).get("instruction_set", instruction_set())
    if processor != instruction_set():
        yield _changed("the processor's instruction set", processor, instruction_set())


def _resumes(directory: RunDirectory, stored: Mapping[str, Any], config: TrainConfig) -> Iterator[str]:
    """Yields what resumes have changed in the first run: without that, it would have the results of one that never
    stopped."""
    replaced = [values for values in stored.get("replaced", []) if isinstance(values, dict)]
    for name, why in (("steps", _why_steps), ("until", _why_until)):
        before, now = [values[name] for values in replaced if name in values], getattr(config.run, name)
        if before and (consequence := why(config, before)):
            values = ", then ".join(map(_shown, (*before, now)))
            yield f"{flag(name)} was {values} (the run was resumed), and {consequence}"
    if not config.roles.is_repeatable:
        return
    kinds = [event.get("kind") for event in directory.read_events()]
    replays = {config.run.checkpoint_replay, *(str(values.get("checkpoint_replay")) for values in replaced)}
    if config.replay is not None and "resume" in kinds and "none" in replays:
        yield "the run was resumed with an empty replay buffer (--checkpoint-replay none)"
    if VERSIONS in kinds:
        yield "the run was resumed with other versions or on another processor (events.jsonl says which)"
    if "threads" in kinds:
        yield "the first run changed its number of training threads (events.jsonl says when)"
    if "restart" in kinds:
        yield "an env or a process of the first run was restarted (events.jsonl says why)"


def _why_steps(config: TrainConfig, before: Sequence[Any]) -> str | None:
    """Returns what depends on the number of steps besides the end of the run; None if nothing does."""
    for registry, name in ((ALGORITHMS, config.algorithm), (SYSTEMS, config.system)):
        if registry.plugin_of(name) is not None:
            return f"the {registry.kind} {name} may depend on it"
    names = [*config.learn.annealed_settings(), *(config.replay.annealed_settings() if config.replay else ())]
    return f"{' and '.join(map(flag, names))} changed over these steps" if names else None


def _why_until(config: TrainConfig, before: Sequence[Any]) -> str | None:
    """Returns that the first run may have gone on where the new one stops; None if it has not."""
    now = config.run.until
    if now is None or all(isinstance(value, int | float) and value <= now for value in before):
        return None
    return f"the run may have gone on after it had reached {_shown(now)}"


def _shown(value: object) -> str:
    if value is None:
        return "none"
    return f"{value:,.10g}" if isinstance(value, int | float) else str(value)


def _changed(what: str, before: object, now: object) -> str:
    return f"{what} was {before or 'not given'} and is {now or 'not given'}"
