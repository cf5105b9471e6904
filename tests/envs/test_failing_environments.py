"""The error of a failing environment names the environment, env and seed, and no failure hangs the run."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
from slots import RUN_SEED, hashing_policy, kill_child, make, phases, settings_for, stop_child

from faulty_envs import Failing, Slow, UnmakeableAfter
from veldt.envs.arrangement import time_step
from veldt.envs.seeding import episode_seed
from veldt.envs.settings import AtariConfig
from veldt.envs.source import resolve
from veldt.errors import EnvError
from veldt.runtime import process_state

# In these ways an environment fails by itself; in the others only a process around it can notice.
RAISES = {
    "raise": "RuntimeError: the wheel came off",
    "long message": r"RuntimeError: x+ \[[\d,]+ characters left out\] x+$",
    "SystemExit": "failed .*: SystemExit: 0$",
    "nan observation": "the observation contains NaN",
    "nan reward": "the reward is NaN",
    "infinite observation": "the observation contains an infinite number",
    "infinite reward": "the reward is an infinite number",
    "shape": r"has shape \(4,\), but the observation space declares \(3,\)",
    "no number": "the reward is None: it must be a number",
    "array reward": r"the reward is array\(\[1\.\]\): it must be a number",
    "text reward": "the reward is 'one': it must be a number",
    "digit reward": "the reward is '1': it must be a number",
    "out of memory": "MemoryError",
    "no info": "an info dictionary$",
}
TAKES_PROCESS = {
    "hang": r"answer( in (a reset|step \d+))? within 1 s \(--env-timeout\).* counts as hung",
    "hang in native code": "counts as hung",
    "exit": r"ended its process in (a reset|step \d+): the process exited with code 7",
    "kill": r"ended its process in step \d+: the process was killed by SIGKILL",
}
CASES = [(how, 0) for how in (*RAISES, "hang")] + [(how, 2) for how in (*RAISES, *TAKES_PROCESS)]
IN_RESET = [
    case
    for case in CASES
    if "reward" not in case[0] and case[0] not in ("no number", "hang in native code", "kill")
]
FAILING = 1


def run(how: str, processes: int, episode: int, at: int, resets: str = "mid-batch") -> EnvError:
    """The error of envs of which one fails in step `at` (0: the reset) of its `episode`."""
    seed = episode_seed(RUN_SEED, FAILING, episode)
    env = functools.partial(Failing, how, [seed], at, lengths=[3])
    timeout = 1.0 if how.startswith("hang") else 20.0  # a busy machine is not a hanging environment
    settings = settings_for(env, num_envs=4, env_timeout=timeout, resets=resets)
    envs = make(settings, 5, groups=2, processes=processes)
    try:
        with pytest.raises(EnvError) as caught:
            envs.start()
            for _ in phases(envs, hashing_policy(envs.trajectory.spec.action), 3, resets):
                pass
    finally:
        envs.close()
    error = caught.value
    assert error.env == FAILING and error.seed == seed
    assert f"env {FAILING} (seed {seed})" in str(error)
    assert "faulty_envs:<Failing>" in str(error)
    if how == "raise":
        assert error.details.startswith("Traceback") and "in _spoil" in error.details
        assert str(error).count("the wheel came off") == 1
    return error


@pytest.mark.timeout(40)
@pytest.mark.parametrize(("how", "processes"), CASES)
def test_in_a_step(how: str, processes: int) -> None:
    error = run(how, processes, episode=1, at=2)
    assert re.search((RAISES | TAKES_PROCESS)[how], str(error)), error


@pytest.mark.timeout(40)
@pytest.mark.parametrize("resets", ["mid-batch", "wait"])
@pytest.mark.parametrize("episode", [0, 1])
@pytest.mark.parametrize(("how", "processes"), IN_RESET)
def test_in_a_reset(how: str, processes: int, episode: int, resets: str) -> None:
    run(how, processes, episode, at=0, resets=resets)


@pytest.mark.timeout(40)
@pytest.mark.parametrize(("how", "processes"), [("raise", 0), ("nan reward", 0), ("raise", 1), ("exit", 1)])
def test_the_error_has_the_seed_of_the_failed_episode(how: str, processes: int) -> None:
    """Also where the other envs of its process have begun many episodes since."""
    lengths = [1, 12]
    seeds = [episode_seed(RUN_SEED, b, 0) for b in range(6)]
    failing = next(b for b, seed in enumerate(seeds) if seed % 2 == 1)
    env = functools.partial(Failing, how, [seeds[failing]], 9, lengths)
    envs = make(settings_for(env, num_envs=6), 12, processes=processes)
    try:
        envs.start()
        with pytest.raises(EnvError) as caught:
            for _ in phases(envs, hashing_policy(envs.trajectory.spec.action), 1):
                pass
        assert envs.trajectory.episode[8].max() > 2
    finally:
        envs.close()
    assert (caught.value.env, caught.value.seed) == (failing, seeds[failing])


@pytest.mark.parametrize("processes", [0, 2])
def test_in_a_constructor(processes: int, tmp_path: Path) -> None:
    """The first is made to see its spaces, so it is the fourth of the envs that cannot be made."""
    env = functools.partial(UnmakeableAfter, str(tmp_path / "tally"), 4)
    with pytest.raises(EnvError, match=r"env \d \(seed \d+\) could not be made.*no licence") as caught:
        make(settings_for(env, num_envs=4), 2, groups=1, processes=processes)
    assert "UnmakeableAfter" in caught.value.details or "licence" in caught.value.details
    assert caught.value.env >= 1


@pytest.mark.alone
@pytest.mark.timeout(40)
@pytest.mark.parametrize("processes", [0, 1])
def test_a_slow_step_is_not_a_hang(processes: int) -> None:
    """Steps that take longer together than the deadline, each of them within it."""
    env = functools.partial(Slow, 0.5)
    # The deadline of the first look at them passes while the last of them is at work, as it was before the step.
    settings = settings_for(env, num_envs=3, env_timeout=1.25)
    envs = make(settings, 6, groups=1, processes=processes)
    try:
        envs.start()
        for slot in phases(envs, hashing_policy(envs.trajectory.spec.action), 1):
            assert slot.restarts.sum() == 0
    finally:
        envs.close()


@pytest.mark.timeout(40)
def test_a_process_that_dies_between_steps() -> None:
    """The broken pipe at the next command must become an error of the environment."""
    envs = make(settings_for(functools.partial(Slow, 0.0), num_envs=2), 4, processes=2)
    try:
        envs.start()
        kill_child("env process 1")
        with pytest.raises(EnvError, match=r"env 1 .*killed by SIGKILL"):
            envs.save()
    finally:
        envs.close()


@pytest.mark.timeout(40)
@pytest.mark.parametrize(("call", "where"), [("save", ""), ("step", " in step 0")], ids=["save", "step"])
def test_a_process_that_is_stopped_is_not_waited_for_until_the_timeout(
    call: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_state, "STOPPED_S", 0.3)
    settings = settings_for(functools.partial(Slow, 0.0), num_envs=2, env_timeout=1000.0)
    envs = make(settings, 4, processes=2)
    try:
        envs.start()
        stop_child("env process 1")
        stopped = rf"env 1 .*did not answer{where}: its process was stopped for 0.3 s \(SIGSTOP"
        with pytest.raises(EnvError, match=stopped):
            if call == "save":
                envs.save()
            else:
                next(phases(envs, hashing_policy(envs.trajectory.spec.action), 1))
    finally:
        envs.close()


@pytest.mark.timeout(40)
def test_an_environment_that_hangs_where_its_speed_is_measured() -> None:
    env = functools.partial(Slow, 60.0)
    said = r"\(seed 0\) failed in .* when its speed was measured.*TimeoutError.*counts as hung"
    with pytest.raises(EnvError, match=said):
        time_step(resolve(env), AtariConfig(), timeout=1.0)
