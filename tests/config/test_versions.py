"""A run records the versions of the packages that its env and its own code come from, and of no others."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path

import gymnasium
import pytest

import veldt
from veldt.config.plan_digest import plan_digest
from veldt.config.versions import versions_for_env, versions_for_run
from veldt.recipes import find

ALWAYS = {"python", "veldt", "torch", "gymnasium", "numpy", "numba"}
Install = Callable[[str, str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Returns what installs a package with a version and a module that makes CartPole, in a directory of its own."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)

    def add(package: str, version: str, module: str) -> None:
        for old in site.glob(f"{package.replace('-', '_')}-*"):
            for file in old.iterdir():
                file.unlink()
            old.rmdir()
        info = site / f"{package.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        (info / "top_level.txt").write_text(f"{module}\n")
        (site / f"{module}.py").write_text(
            "import gymnasium\ndef make(): return gymnasium.make('CartPole-v1').unwrapped\n"
        )

    return add


def test_an_environment_without_an_engine_has_no_version_of_one(install: Install) -> None:
    install("mujoco", "3.9", "mujoco")
    assert versions_for_env("CartPole-v1", {}).keys() == ALWAYS


@pytest.mark.parametrize(
    ("env", "package"),
    [
        ("HalfCheetah-v5", "mujoco"),
        ("LunarLander-v3", "box2d-py"),
        ("ALE/Pong-v5", "ale-py"),
        ("mine:make", "mujoco"),
    ],
)
def test_the_engine_of_an_environment_is_recorded(env: str, package: str, install: Install) -> None:
    for name in ("mujoco", "box2d-py", "ale-py"):
        install(name, "3.9", name.replace("-", "_"))
    found = versions_for_env(env, {})
    assert found[package] == "3.9"
    assert env == "mine:make" or found.keys() == {*ALWAYS, package}, "own code may use any of them"


@pytest.mark.parametrize(("package", "module"), [("same-name-m", "same_name_m"), ("other-name", "unlike_m")])
def test_the_package_of_an_environment_is_recorded(package: str, module: str, install: Install) -> None:
    install(package, "1.2", module)
    assert versions_for_env(f"{module}:make", {})[package] == "1.2"
    gymnasium.register(f"{module}-v0", entry_point=f"{module}:make")
    try:
        assert versions_for_env(f"{module}-v0", {})[package] == "1.2"
    finally:
        del gymnasium.registry[f"{module}-v0"]
    assert module not in sys.modules, "nothing is imported"


def test_the_packages_of_own_networks_and_plug_ins_are_recorded(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("net-m", "1.2", "net_m")
    install("plug-m", "1.3", "unlike_plug_m")
    monkeypatch.setattr("veldt.config.versions.plugin_distributions", {"unlike_plug_m.parts": "plug-m"})
    config = find("a2c").draft("CartPole-v1").build({"network": "net_m:make"})
    config = dataclasses.replace(config, plugins=("unlike_plug_m.parts",))
    assert versions_for_run(config).items() >= {"net-m": "1.2", "plug-m": "1.3"}.items()


def test_another_version_of_the_environment_is_another_plan_and_the_cause(
    install: Install, in_tmp: Path
) -> None:
    install("env-package-m", "1.0", "env_package_m")
    settings = {"steps": 64, "num_envs": 2, "quiet": True, "env": "env_package_m:make"}
    run = veldt.train("a2c", run_dir=in_tmp / "run", **settings)
    config = json.loads((run.path / "config.json").read_text())
    assert config["versions"]["env-package-m"] == "1.0"
    resolved = dataclasses.replace(find("a2c").config("CartPole-v1"), env="env_package_m:make")
    before = plan_digest(resolved)
    install("env-package-m", "2.0", "env_package_m")
    assert plan_digest(resolved) != before
    result = veldt.reproduce(run.path, run_dir=in_tmp / "again", quiet=True)
    assert result.cause == "env-package-m was 1.0 and is 2.0"
    assert result.difference is None
