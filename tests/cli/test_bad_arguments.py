"""A wrong argument is answered by one sentence with what was given and what is allowed."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from veldt import cli
from veldt.cli import entry
from veldt.cli.verbs import inspecting, starts
from veldt.evaluation import foreign_names

SEE = "(see `veldt train ppo --help`)"

# Arguments after `veldt train ppo --env CartPole-v1`, and what the sentence has to say.
SETTINGS = {
    "--steps abc": f"--steps is 'abc': it must be a whole number {SEE}",
    "--steps=abc": f"--steps is 'abc': it must be a whole number {SEE}",
    "--steps 1.5": "--steps is '1.5': it must be a whole number",
    "--steps": f"--steps: expected one argument {SEE}",
    "--steps --seed 3": "--steps: expected one argument",
    "--steps 1e-6": "--steps is '1e-6': it must be a whole number",
    "--steps 1e400": "--steps is '1e400': it must be less than 2^63",
    "--steps 1e30": f"--steps is '1e30': it must be less than 2^63 {SEE}",
    f"--steps {2**63}": "it must be less than 2^63",
    "--steps inf": "--steps is 'inf': it must be a whole number",
    "--steps 1e6 --batch-size 1_00": "--batch-size 100 does not divide",  # the number before it was understood
    "--steps 5 --seed 1 --steps 6": f"--steps: given twice {SEE}",
    "--compile --no-compile": "--compile: given twice",
    "--steps 0": "--steps is 0: it must be more than 0",
    "--steps -5": "--steps is -5: it must be more than 0",
    "--until often": "--until is 'often': it must be a number",
    "--until nan": "--until is nan: it must be a finite number",
    "--learning-rate fast": "--learning-rate is 'fast': it must be a number",
    "--learning-rate nan": "--learning-rate is nan: it must be a finite number",
    "--precision fp8": "--precision is 'fp8': it must be one of auto, fp32, bf16",
    "--resets wiat": "(did you mean 'wait'?)",
    "--hidden 64 x": "--hidden is 'x': it must be a whole number",
    "--hidden 64,64": "or several with spaces between them: --hidden 64 64 (see",
    "--hidden -3 4": "--hidden is -3 4: give at least one layer of at least 1 unit",
    "--hidden 4 -1e3": "--hidden is 4 -1000: give at least one layer of at least 1 unit",
    "--hidden -3": "--hidden is -3: give at least one layer",
    "--hidden 0": "--hidden is 0: give at least one layer",
    "--compile=yes": "--compile: a switch takes no value; write --NAME, or --no-NAME for no (see",
    "--compile True": "'True' is one argument too many: a switch takes no value; write --NAME, or --no-NAME for no",
    "--stepz 5": "no flag --stepz (did you mean '--steps'?)",
    "--no-compil": "no flag --no-compil (did you mean '--no-compile'?)",
    "--horizon 5": "--horizon is --batch-size divided by --num-envs here: give --batch-size N × num_envs (see",
    "--epsilon-end 0": "--epsilon-end is none of ppo's settings: take a recipe that has it (dqn,",
    "--n_steps 128": "--n-steps is --batch-size divided by --num-envs here: give --batch-size N × num_envs (see",
    "--track": "--track is --log wandb here;",
    "--no-cuda": "--cuda is --device here: auto, cpu, cuda or cuda:N",
    "--actors 2": "--actors is for actors apart from learners, and in ppo the same process acts and learns: take a",
    "--buffer-size 5": "--buffer-size is about a replay buffer, and ppo learns from fresh rollouts and keeps none",
    "--samples-per-insert 4": "--samples-per-insert is called --training-intensity in veldt, and "
    "--training-intensity is none of ppo's settings: take a recipe that has it (dqn, async-dqn, c51,",
    "--system apex": "take a recipe of the system you want, and --algorithm ",
    "--discount 0.9": f"--discount is called --gamma here {SEE}",
    "--checkpoint-replay none": "--checkpoint-replay is about a replay buffer, and ppo learns from fresh rollouts",
    "--foo": f"no flag --foo {SEE}",
    "more": "'more' is one argument too many",
    "--num-envs 0": "--num-envs is 0: it must be at least 1",
    "--num-envs=0": "--num-envs is 0: it must be at least 1",
    "--until -1e3 --steps 0": "--steps is 0",  # the number before it was understood
    "--until None --steps 0": "--steps is 0",
    "--batch-size 100": "--batch-size 100 does not divide into --minibatches",
    "--batch-size 96 --minibatches 4 --num-envs 5": "--batch-size 96 does not divide among 5 envs",
    "--network dpn": "no network 'dpn' (did you mean 'dqn'?)",
    "--network dqn": "network 'dqn' is for images",
    "--network nosuch:net": "no network 'nosuch:net'",
    "--network torch:nn": "module 'torch' has a module 'nn', not a function: write it as torch.nn:function",
    "--network torch:inf": "module 'torch' has 'inf', of type float, not a function; write it as module:function",
    "--device tpu": "--device tpu",
    "--device cuda": "--device cuda does not exist: torch finds 0 CUDA devices",
    "--env-backend atari": "--env-backend atari is for Atari games, and CartPole-v1 is not one",
    "--processes 2 --env-backend in-process": "--processes is 2, and --env-backend in-process has none",
    "--sticky-actions 0.25": "--sticky-actions is for Atari games (ALE/...), and CartPole-v1 is not one",
    "--frame-skip 4": "--frame-skip is for Atari games",  # also where it is the default
    "--terminal-on-life-loss": "--terminal-on-life-loss is for Atari games",
    "--hidden 8 --network mlp --frame-stack 2": "--frame-stack is for Atari games",
    "--processes 3 --num-envs 2": "--processes is 3: it must be between 0 (automatic) and the number of",
    "--env-kwargs {": "--env-kwargs is not JSON",
    '--env-kwargs {"gravity":5,"gravity":6}': "--env-kwargs is not JSON (it has 'gravity' twice)",
    "--env-kwargs 3": "--env-kwargs is 3, which is not a JSON object",
    '--env-kwargs {"gravity":5}': "--env-kwargs is {'gravity': 5}, and CartPole-v1 takes no 'gravity': leave it out",
}


@pytest.mark.parametrize("arguments", SETTINGS)
def test_settings(arguments: str, refused: Any, in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert SETTINGS[arguments] in refused("train", "ppo", "--env", "CartPole-v1", *arguments.split())
    assert not (in_tmp / "runs").exists(), "a run was made for nothing"


WORDS = {
    "trian ppo": "no verb 'trian' (did you mean 'train'?): known are train, resume",
    "train": "which recipe? veldt train RECIPE --env ENV; known are a2c, a3c, ppo",
    "train --env CartPole-v1": "which recipe?",
    "train --env CartPole-v1 ppo": "which recipe? the recipe comes before the flags: veldt train RECIPE --env ENV",
    "train pp --env CartPole-v1": "no recipe 'pp' (did you mean 'ppo'?)",
    "train sac --env CartPole-v1": "no recipe 'sac': known are a2c, a3c, ppo",  # and not: did you mean a3c?
    "train ppo": "--env is missing: see `veldt train ppo --help`",
    "train ppo CartPole-v1": "'CartPole-v1' is one argument too many: give it as --env CartPole-v1 (see `veldt train",
    "train ppo --steps 5 mine:make": "'mine:make' is one argument too many: give it as --env mine:make (see",
    "resume run --learning-rate 1e-3": "--learning-rate cannot change when a run is resumed: only --steps, --until,",
    "resume run --no-double": "--double cannot change when a run is resumed",
    "resume run --algorithm c51": "--algorithm cannot change when a run is resumed",
    "resume run --total-timesteps 5": "--total-timesteps is called --steps here (see `veldt resume --help`)",
    "resume run --env-id mine:make": "--env-id is called --env here (see",
    "resume run --eval-freq 5": "--eval-freq is --evaluate-every here, in steps of all envs together (see",
    "resume run --lr 5": "--lr is called --learning-rate in veldt, which cannot change when a run is resumed: only",
    "resume run --progress-bar": "--progress-bar is no setting: the command always shows its progress",
    "reproduce run --total-timesteps 5": "--total-timesteps is called --steps in veldt, which cannot change when a run "
    "is reproduced, with the plan that it had; start a new run instead (see `veldt reproduce --help`)",
    "reproduce run --seed 5": "--seed cannot change when a run is reproduced, with the plan",
    "reproduce run --gym-id mine:make": "--gym-id is called --env here (see",
    "reproduce run --run-di x": "no flag --run-di (did you mean '--run-dir'?)",
    "evaluate run --total-timesteps 5": "--total-timesteps is no flag here: --episodes whole episodes are played, or",
    "evaluate run --n-eval-episodes 5": "--n-eval-episodes is --episodes here, the number of episodes to play (see",
    "evaluate run --deterministic": "--deterministic is called --greedy here (see `veldt evaluate --help`)",
    "evaluate run --render": "--render is no flag here: `veldt watch RUN` makes a video of an episode (see",
    "evaluate --model-path run": "--model-path is the argument RUN here, without a flag: the directory of the run (see",
    "evaluate run --episode 5": "no flag --episode (did you mean '--episodes'?)",
    "watch run --deterministic": "--deterministic is called --greedy here (see `veldt watch --help`)",
    "watch run --render": "--render is no flag here: the video is always made, and --out names its file (see",
    "watch run --no-stochastic": "--stochastic is what happens without --greedy here (see",
    "record-starts run --n-episodes 5": "--n-episodes is --starts here, one in each episode (see",
    "resume run --stepz 5": "no flag --stepz (did you mean '--steps'?)",
    "train ppo --env CartPol-v1": "no environment 'CartPol-v1' (did you mean 'CartPole-v1'?)",
    "train ppo --env ALE/Brekout-v5": "(did you mean 'ALE/Breakout-v5'?)",
    "train ppo --env Pong-v5": "(did you mean 'ALE/Pong-v5'?)",
    "train ppo --env SpaceInvadersDeterministic-v5": "(did you mean 'ALE/SpaceInvaders-v5'?)",
    "train ppo --env Nope": "no environment 'Nope': give a Gymnasium id",
    "train ppo --env :": "no environment ':': write it as module:function",
    "train ppo --env environments.py:scripted": "write it as environments:scripted, and run this in the directory of",
    "train ppo --env nosuch:make": "there is no module 'nosuch'; write it as module:function, and run this in the",
    'train ppo --env environments:scripted --env-kwargs {"length":5}': "environments:scripted takes no 'length'",
    "train ppo --env environments:scriptd": "(did you mean 'scripted'?)",
    "train ppo --env faulty_envs:no_environment": "returned str, not a gymnasium.Env",
    "train ppo --env faulty_envs:no_object": "returned the class Failing, not a gymnasium.Env",
    "train ppo --env faulty_envs:text_action": "allowed are Discrete, MultiDiscrete, MultiBinary and Box",
    "resume": "RUN is missing: see `veldt resume --help`",
    "reproduce": "RUN is missing: see `veldt reproduce --help`",
    "evaluate a b": "'b' is one argument too many",
    "evaluate nowhere": "nowhere is not a veldt run: there is no such directory",
    "resume nowhere": "nowhere is not a veldt run: there is no such directory",
    "watch nowhere": "nowhere is not a veldt run: there is no such directory",
    "report": "RUNS is missing",
    "train ppo --env environments:dictionary --network nosuch:net": "no network 'nosuch:net': there is no module",
    'train ppo --env ALE/Pong-v5 --env-kwargs {"mode":1}': "--env-kwargs is {'mode': 1}, and ALE/Pong-v5 is played",
    "train apex-ddpg --env Pendulum-v1 --samples-per-insert 4": "is called --training-intensity here (see",
    "train apex-dqn --env CartPole-v1 --algorithm ddpg --double": "--double is none of apex-dqn's settings with "
    "--algorithm ddpg: take a recipe that has it (dqn,",
    "train a2c --env CartPole-v1 --batch-size 3": (
        "--batch-size is none of a2c's settings: take a recipe that has it (ppo, appo;"
    ),
    "train a2c --env ALE/Pong-v5 --hidden 8 --env-backend in-process": "--hidden is 8, and no part of this network is",
    "recipes ppoo": "no recipe 'ppoo' (did you mean 'ppo'?)",
    "recipes ppo --env CartPole-v7": "no environment 'CartPole-v7' (did you mean 'CartPole-v1'?)",
    "recipes ppo --env nosuch:make": "there is no module 'nosuch'; write it as module:function, and run this in the",
    "bench sampling --seconds 1 --seconds 2": "--seconds: given twice",
    "bench sampling --samplers 0": "--samplers is 0: it must be at least 1",
    "bench training --samplers 2": "--samplers is 2: only `veldt bench sampling` takes more than one",
    "bench sampling --barrier": "--barrier is for samplers that wait for each other: add --samplers 2, or more",
    "bench sampling --samplers 1000": "--samplers is 1000: each needs a core of its own, and",
    "bench samplin": "'samplin' cannot be WHAT: it must be one of sampling, training (did you mean 'sampling'?)",
}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("evaluate", ""), "RUN is empty: give a path"),
        (("resume", " "), "RUN is empty: give a path"),
        (("report", ""), "RUNS is empty: give a path"),
        (("report", "run", "--out", ""), "--out is empty: give a path, or leave it out"),
        (("train", "ppo", "--env", "CartPole-v1", "--run-dir", ""), "--run-dir is empty: give a path"),
    ],
)
def test_an_empty_path_is_not_the_working_directory(
    arguments: tuple[str, ...], message: str, refused: Any, in_tmp: Path
) -> None:
    assert message in refused(*arguments)


def test_keyword_arguments_that_are_no_json_object(refused: Any, in_tmp: Path) -> None:
    said = refused("train", "ppo", "--env", "CartPole-v1", "--env-kwargs", "null")
    assert "--env-kwargs is null, which is not a JSON object: write it as" in said


@pytest.mark.parametrize("arguments", WORDS)
def test_wrong_arguments_are_one_sentence(arguments: str, refused: Any, in_tmp: Path) -> None:
    assert WORDS[arguments] in refused(*arguments.split())
    assert not (in_tmp / "runs").exists()


def test_a_foreign_name_is_about_a_setting_of_the_resumed_run(run: Path, refused: Any) -> None:
    said = refused("resume", str(run), "--n-steps", "5")
    assert said.startswith(
        "--n-steps is about --batch-size in veldt, which cannot change when a run is resumed"
    )
    assert refused("resume", "--polyak", "1", str(run)).startswith(
        "--polyak is no setting: on-policy recipes have no"
    )


def test_a_missing_extra(refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    assert refused("train", "ppo", "--env", "ALE/Breakout-v5") == (
        "ALE/Breakout-v5 needs ale-py, which is not installed: pip install 'veldt[atari]'"
    )


def test_a_run_directory_that_is_a_file(refused: Any, tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    said = refused("train", "ppo", "--env", "CartPole-v1", "--run-dir", str(tmp_path / "here"))
    assert said == f"--run-dir {tmp_path / 'here'} is a file: name a new directory"


def test_a_run_directory_that_exists(refused: Any, run: Path) -> None:
    said = refused("train", "ppo", "--env", "CartPole-v1", "--run-dir", str(run))
    assert said == f"--run-dir {run} exists already: name a new directory, or `veldt resume {run}`"


def test_debug_adds_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["train", "ppo", "--env", "CartPole-v1", "--steps", "0", "--debug"])
    shown = capsys.readouterr().err
    assert "Traceback" in shown and shown.splitlines()[-1] == "veldt: --steps is 0: it must be more than 0"


@pytest.mark.parametrize("surprise", [ZeroDivisionError("oh"), BrokenPipeError("oh")])
def test_an_unexpected_error_is_one_sentence(
    surprise: Exception, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken pipe as well: it may be a worker's, and the run has not ended well then."""

    def fail(arguments: list[str]) -> str:
        raise surprise

    monkeypatch.setitem(entry.VERBS, "doctor", fail)  # type: ignore[arg-type]
    name = type(surprise).__name__
    raised = f", raised by fail in {__file__}, line {fail.__code__.co_firstlineno + 1}"
    assert refused("doctor", code=1) == f"{name}: oh (unexpected{raised}; --debug shows where)"
    with pytest.raises(type(surprise)):
        cli.main(["doctor", "--debug"])


@pytest.mark.parametrize("arguments", [["--version"], ["recipes", "ppo"]])
def test_a_closed_pipe_is_no_error(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "veldt", *arguments]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments", ["--help", "train --help", "train ppo --help", "evaluate -h", "help", "--version", "-V", ""]
)
def test_help_is_no_error(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        cli.main(arguments.split())
    except SystemExit as stopped:
        assert stopped.code in (0, None)
    shown = capsys.readouterr()
    assert "veldt" in shown.out and shown.err == ""


def test_help_of_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["help", "evaluate"])
    assert capsys.readouterr().out.startswith("usage: veldt evaluate RUN [flags]")


def test_no_flag_is_answered_as_a_foreign_one() -> None:
    verbs = {
        inspecting.Evaluate: foreign_names.OF_EVALUATE,
        inspecting.Watch: foreign_names.OF_WATCH,
        starts.RecordStarts: foreign_names.OF_RECORD_STARTS,
    }
    for verb, table in verbs.items():
        assert not {field.name for field in dataclasses.fields(verb)} & table.keys()


@pytest.mark.parametrize("verb", ["evaluate", "record-starts", "watch", "report", "bench", "doctor"])
def test_a_wrong_flag_is_answered_before_torch_is_imported(verb: str) -> None:
    code = f"""
import sys
from veldt.cli import main
try:
    main(["{verb}", "--wrong"])
finally:
    assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert done.returncode == 2 and "no flag --wrong" in done.stderr, done.stderr


def test_the_help_says_for_which_environment_its_values_are(capsys: pytest.CaptureFixture[str]) -> None:
    for words, is_said in (("train ppo --help", True), ("train ppo --env CartPole-v1 --help", False)):
        with pytest.raises(SystemExit):
            cli.main(words.split())
        assert ("The values in brackets are for Atari" in capsys.readouterr().out) == is_said


@pytest.mark.parametrize(
    ("verb", "name"), [("watch", "x.mp4"), ("report", "x.html"), ("record-starts", "x.safetensors")]
)
def test_a_file_in_no_directory_is_refused(
    verb: str, name: str, run: Path, refused: Any, in_tmp: Path
) -> None:
    said = refused(verb, str(run), "--out", f"no/such/{name}")
    assert said == f"--out no/such/{name}: there is no directory no/such; make it, or name another file"
    assert not (in_tmp / "no").exists()


def test_a_path_that_begins_with_a_dash_is_told_from_a_flag(refused: Any, in_tmp: Path) -> None:
    (in_tmp / "-run").mkdir()
    said = refused("report", "-run")
    assert said.startswith("no flag -run: write the path that begins with a dash as ./-run")
