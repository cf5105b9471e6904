"""The process in which `fuzz.py` opens damaged runs: it reads a case a line, and answers each call with a line.

    python benchmarks/fuzz_calls.py DEADLINE_S MEMORY_GB

An answer is ["loaded", note] (as it was stored), ["older", note], ["refused", sentence] or ["defect", what]. A call
that takes six times its deadline is one that hangs: the process writes its stack to stderr and ends.
"""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import io
import json
import os
import resource
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import veldt
from veldt.agent import Agent
from veldt.api import reproducing
from veldt.cli.verbs import watch
from veldt.envs.step_env import make_step_env
from veldt.errors import VeldtError
from veldt.evaluation import rendered_env
from veldt.report import write_report
from veldt.report.data import RunData
from veldt.report.facts import events_section, reproduction_section, settings_section
from veldt.report.overview import heading
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.runs.episodes import ActionsFile, read_episodes
from veldt.systems.run import Run

_PATIENCE = 6  # neighbours may take most of the processor
_LONGEST = 2_100  # letters of a sentence
Answer = tuple[str, str]


class Unlike(Exception):
    """A call succeeded with other values than were stored."""


class _Undrawn(rendered_env.RenderedEnv):
    """An env for `watch` whose pictures are empty."""

    def render(self) -> np.ndarray:
        return np.zeros((2, 2, 3), np.uint8)


def digest(groups: dict[str, Any]) -> str:
    """Returns a digest of arrays by name."""
    text = hashlib.sha256()
    for name, array in sorted(groups.items()):
        text.update(f"{name} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return text.hexdigest()


def weights_of(agent: Agent) -> str:
    """Returns a digest of an agent's weights."""
    return digest({name: tensor.numpy() for name, tensor in agent._network.state_dict().items()})


def _load(run: Path, known: dict[str, Any]) -> tuple[Agent, Answer]:
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        agent = veldt.load(run)
    if "weights" not in known:
        return agent, ("loaded", "")
    stored = known["weights"].get(str(agent.step))
    if weights_of(agent) != stored:
        raise Unlike(f"the weights of step {agent.step} are not those that were stored")
    if agent.step == known["newest"]:
        return agent, ("loaded", "")
    if not said.getvalue() and (run / "checkpoints" / f"step-{known['newest']:012d}").exists():
        raise Unlike(f"the checkpoint of step {agent.step} is older, and nothing was said")
    return agent, ("older", said.getvalue())


def load(run: Path, known: dict[str, Any], is_own_config: bool) -> Answer:
    return _load(run, known)[1]


def evaluate(run: Path, known: dict[str, Any], is_own_config: bool) -> Answer:
    agent, answer = _load(run, known)
    scores = list(veldt.evaluate(agent, episodes=1).scores)
    if "weights" in known and is_own_config and scores != known["scores"][str(agent.step)]:
        raise Unlike(f"the score is {scores}, not {known['scores'][str(agent.step)]}")
    return answer


def starts(run: Path, known: dict[str, Any], is_own_config: bool) -> Answer:
    agent, answer = _load(run, known)
    scores = list(veldt.evaluate(agent, starts=run / "starts.safetensors").scores)
    if "weights" in known and is_own_config and agent.step == known["newest"] and scores != known["starts"]:
        raise Unlike(f"the scores are {scores}, not {known['starts']}")
    return answer


def report(run: Path, known: dict[str, Any], is_own_config: bool) -> Answer:
    write_report([run], run / "report.html")
    return "loaded", ""


def read(run: Path, known: dict[str, Any], is_own_config: bool) -> Answer:
    """What `veldt report` reads, without the drawing of charts."""
    data = RunData.load(run)
    html = settings_section([data]) + events_section([data]) + reproduction_section([data]) + heading([data])
    for axis in ("step", "seconds"):
        for name in data.metric_names():
            data.curve(axis, name)
    return "loaded", f"{len(html)} {data.status.text} {data.stage_seconds()}"


def replays(run: Path, known: dict[str, Any], is_own_config: bool) -> Answer:
    """What `veldt watch --episode` reads: every episode's line and actions, and three of them played again."""
    episodes = read_episodes(run)
    agent, answer = _load(run, known)
    refused = []
    with ActionsFile(run) as file:
        for record in episodes:
            try:
                file.read(record)
            except VeldtError as error:
                refused.append(error)
    env = _Undrawn(agent.source, agent.config.atari)
    try:
        for index in {0, len(episodes) // 2, len(episodes) - 1} if episodes else ():
            try:
                for _ in watch._replay(agent, env, episodes[index], index, []):
                    pass
            except VeldtError as error:
                refused.append(error)
    finally:
        env.close()
    for error in refused:
        _check_sentence(error)
    return ("refused", str(refused[0])) if refused else answer


def reproduce(run: Path, known: dict[str, Any], is_own_config: bool) -> Answer:
    """All of `veldt.reproduce` but the training: the new run is the one that was not damaged."""
    made = reproducing.run_system
    reproducing.run_system = lambda *_, **__: Run(run.parent.parent / "whole", "steps", None, {})  # type: ignore[assignment]
    try:
        found = veldt.reproduce(run, quiet=True)
    finally:
        reproducing.run_system = made
    return "loaded", found.difference or ""


def resume(run: Path, known: dict[str, Any], is_own_config: bool) -> Answer:
    store, said = CheckpointStore(RunDirectory(run).checkpoints), io.StringIO()
    with contextlib.suppress(VeldtError):
        step = store.newest(lambda _: None).step
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        veldt.resume(run, steps=known["resumed_to"], log="none", quiet=True)
    if "weights" not in known or not is_own_config:
        return "loaded", ""
    newest = store.newest(lambda _: None)
    if [newest.step, digest(newest.groups["weights"])] != known["resumed"][str(step)]:
        raise Unlike(f"the run resumed from step {step} does not end with the values that it would have had")
    return "loaded" if step == known["newest"] else "older", ""


def load_export(export: Path, known: dict[str, Any], is_own_config: bool) -> Answer:
    _load_export(export, known)
    return "loaded", ""


def evaluate_export(export: Path, known: dict[str, Any], is_own_config: bool) -> Answer:
    agent = _load_export(export, known)
    scores = list(veldt.evaluate(agent, episodes=1).scores)
    if "scores" in known and is_own_config and scores != known["scores"]:
        raise Unlike(f"the score is {scores}, not {known['scores']}")
    return "loaded", ""


def _load_export(export: Path, known: dict[str, Any]) -> Agent:
    agent = veldt.load(export)
    if "weights" in known and weights_of(agent) != known["weights"]:
        raise Unlike("the weights are not those that were exported")
    return agent


def need_run(export: Path, known: dict[str, Any], is_own_config: bool) -> Answer:
    """Every call that needs the run itself refuses an export."""
    calls: tuple[Callable[[], Any], ...] = (
        lambda: watch.record(export, None, 0, False, False, None),
        lambda: veldt.resume(export, steps=1_000, log="none", quiet=True),
        lambda: veldt.reproduce(export, quiet=True),
        lambda: veldt.export(export, video=False, episodes=1),
        lambda: write_report([RunDirectory.open(export).path], export / "report.html"),
    )
    for number, call in enumerate(calls):
        try:
            call()
        except VeldtError as error:
            _check_sentence(error)
            why = str(error)
        else:
            raise Unlike(f"the call {number} took an export for a run")
    return "refused", why


def replace_export(export: Path, known: dict[str, Any], is_own_config: bool) -> Answer:
    """Exports the run again, to the same place."""
    (export / "canary_module.py").unlink(missing_ok=True)  # with a file of somebody's, no export is replaced
    veldt.export(export.parent.parent / "trained", out=export, video=False, episodes=1)
    if weights_of(veldt.load(export)) != known["exported"]:
        raise Unlike("the new export has other weights than the run")
    return "loaded", ""


CALLS: dict[str, Callable[[Path, dict[str, Any], bool], Answer]] = {
    "load": load,
    "evaluate": evaluate,
    "starts": starts,
    "read": read,
    "report": report,
    "watch": replays,
    "reproduce": reproduce,
    "resume": resume,
    "load export": load_export,
    "evaluate export": evaluate_export,
    "need a run": need_run,
    "replace export": replace_export,
}


def _check_sentence(error: VeldtError) -> None:
    text = str(error)
    if not text or len(text) > _LONGEST:
        raise Unlike(f"the error's text has {len(text):,} letters: {text[:200]!r}")


def answer(call: str, run: Path, known: dict[str, Any], is_own_config: bool, deadline: float) -> Answer:
    """Returns the outcome of one call."""
    faulthandler.dump_traceback_later(_PATIENCE * deadline, exit=True)
    begin = time.process_time()
    try:
        result = CALLS[call](run, known, is_own_config)
        if (seconds := time.process_time() - begin) > deadline:
            raise Unlike(f"it took {seconds:.0f} s of processor time")
        return result
    except VeldtError as error:
        try:
            _check_sentence(error)
        except Unlike as unlike:
            return "defect", str(unlike)
        return "refused", str(error)
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames if "veldt" in frame.filename]
        return "defect", f"{type(error).__name__}: {str(error)[:200]} ({' '.join(own[-4:])})"
    finally:
        faulthandler.cancel_dump_traceback_later()


def reference(whole: Path, scratch: Path, is_atari: bool) -> dict[str, Any]:
    """Returns what the calls give for the run that was not damaged, from every one of its checkpoints."""
    known: dict[str, Any] = {"weights": {}, "scores": {}, "resumed": {}}
    older, copy = scratch / "reference" / "older", scratch / "reference" / "run"
    shutil.copytree(whole, older)
    for number, path in enumerate(sorted((older / "checkpoints").iterdir(), reverse=True)):
        agent = veldt.load(older)
        if number == 0:
            known |= {"newest": agent.step, "resumed_to": agent.step + 40}
            if is_atari:
                known["starts"] = list(veldt.evaluate(agent, starts=older / "starts.safetensors").scores)
        step = str(agent.step)
        known["weights"][step] = weights_of(agent)
        known["scores"][step] = list(veldt.evaluate(agent, episodes=1).scores)
        shutil.copytree(older, copy)
        veldt.resume(copy, steps=known["resumed_to"], log="none", quiet=True)
        newest = CheckpointStore(copy / "checkpoints").newest(lambda _: None)
        known["resumed"][step] = [newest.step, digest(newest.groups["weights"])]
        shutil.rmtree(copy)
        shutil.rmtree(path)
    shutil.rmtree(older)
    return known


def export_reference(whole: Path) -> dict[str, Any]:
    """Returns what the calls give for the export that was not damaged."""
    agent = veldt.load(whole)
    weights, scores = weights_of(agent), list(veldt.evaluate(agent, episodes=1).scores)
    return {"weights": weights, "exported": weights, "scores": scores}


def main() -> None:
    rendered_env.make_step_env = lambda source, atari, render: make_step_env(source, atari)  # type: ignore[assignment]
    deadline, memory = float(sys.argv[1]), float(sys.argv[2])
    limit = int(memory * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    # The calls may print: answers go to a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        case = json.loads(line)
        run = Path(case["run"])
        if case["call"] == "reference":
            found: Any = reference(run, Path(case["scratch"]), case["is_atari"])
        elif case["call"] == "export reference":
            found = export_reference(run)
        else:
            found = answer(case["call"], run, case["known"], case["is_own_config"], deadline)
        answers.write(json.dumps(found) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
