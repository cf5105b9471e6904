"""Ids of environments that a module of the user's registers when it is imported."""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium
import pytest
from slots import make, settings_for

from veldt.envs.source import resolve
from veldt.errors import UsageError

_MODULE = """
import gymnasium
gymnasium.register("{name}", entry_point="gymnasium.envs.classic_control.cartpole:CartPoleEnv", max_episode_steps=7)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "my_games.py").write_text(
        _MODULE.format(name="Mine/Short-v0") + _MODULE.format(name="Short-v3")
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(gymnasium.envs.registration, "registry", registry := dict(gymnasium.registry))
    monkeypatch.setattr(gymnasium, "registry", registry)
    monkeypatch.delitem(sys.modules, "my_games", raising=False)
    return "my_games"


@pytest.mark.parametrize("name", ["Mine/Short-v0", "Short-v3"])
def test_a_module_before_the_id_is_imported(module: str, name: str) -> None:
    """The notation of `gymnasium.make`, which many packages of environments need."""
    env = resolve(f"{module}:{name}").make()
    assert env.spec is not None and (env.spec.id, env.spec.max_episode_steps) == (name, 7)


def test_an_id_that_the_module_does_not_register_is_refused(module: str) -> None:
    with pytest.raises(UsageError, match=r"'my_games' registers no 'Short-v4' \(did you mean 'Short-v3'\?\)"):
        resolve(f"{module}:Short-v4")
    with pytest.raises(UsageError, match="there is no module 'my_gmaes'"):
        resolve("my_gmaes:Short-v3")


@pytest.mark.parametrize("prefix", ["", "my_games:"])
def test_worker_processes_make_it(module: str, prefix: str) -> None:
    """They import neither what the script has imported, nor what its modules have registered."""
    resolve(f"{module}:Short-v3")  # imports the module
    make(settings_for(f"{prefix}Short-v3", num_envs=2), 2, processes=2).close()
