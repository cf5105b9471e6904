"""A plug-in adds an algorithm and a recipe from outside, and reaches every process of a run, also in another shell."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import veldt
from documentation import EXAMPLES
from veldt.algorithms.registry import ALGORITHMS
from veldt.cli import main
from veldt.config.fit import incompatibility
from veldt.config.system_registry import SYSTEMS
from veldt.errors import UsageError

DOCS = EXAMPLES.parent / "docs" / "extend"
SHORT: dict[str, Any] = {
    "env": "CartPole-v1",
    "quiet": True,
    "steps": 1500,
    "learning_starts": 256,
    "threads": 1,
}


@pytest.fixture
def qr_dqn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    __import__("qr_dqn")


def command(*words: str, cwd: Path, path: Path | None = None, home: Path | None = None) -> Any:
    env = os.environ | {"XDG_STATE_HOME": str(home or cwd / "state")}
    if path is not None:
        env["PYTHONPATH"] = f"{path}{os.pathsep}{env.get('PYTHONPATH', '')}"
    return subprocess.run(
        [sys.executable, "-m", "veldt", *words],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.mark.parametrize(("page", "example"), [("plugins.md", "qr_dqn.py"), ("systems.md", "gala.py")])
def test_the_page_shows_the_example_as_it_is(page: str, example: str) -> None:
    assert f'```python title="{example}"\n{(EXAMPLES / example).read_text()}```' in (DOCS / page).read_text()


@pytest.mark.parametrize("example", ["gala", "qr_dqn"])
def test_every_number_of_an_example_has_a_range(example: str) -> None:
    tree = ast.parse((EXAMPLES / f"{example}.py").read_text())
    numbers = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and "Unit(" in ast.unparse(node)
    ]
    without = [number for number in numbers if "Range(" not in number and not number.startswith("learners")]
    assert numbers and not without


def test_the_example_is_short() -> None:
    assert len((EXAMPLES / "qr_dqn.py").read_text().splitlines()) <= 100


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("qr-dqn", {}),
        ("async-dqn", {"learners": 2}),
        ("gorila", {"learners": 2}),
        ("apex-dqn", {"actors": 2, "num_envs": 4}),
    ],
)
def test_qr_dqn_runs_in_every_system_of_dqn(
    recipe: str, settings: dict[str, Any], tmp_path: Path, qr_dqn: None
) -> None:
    run = veldt.train(recipe, algorithm="qr-dqn", run_dir=tmp_path / "run", **SHORT | settings)
    assert run.summary["algorithm"] == "qr-dqn"
    last = json.loads((run.path / "metrics.jsonl").read_text().splitlines()[-1])
    assert next(value for name, value in last.items() if name.rpartition("/")[2] == "updates") > 0
    agent = veldt.load(run.path)
    assert agent.act(agent.make_env().reset(seed=1)[0]) in (0, 1)


def test_it_fits_the_systems_that_dqn_fits(qr_dqn: None) -> None:
    assert ALGORITHMS.plugin_of("qr-dqn") == "qr_dqn"
    for system in SYSTEMS:
        assert (incompatibility(system, "qr-dqn") is None) == (incompatibility(system, "dqn") is None)


def test_the_command_line_knows_what_a_plugin_adds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def said(*words: str, code: int = 0) -> str:
        """What a command that ends with this code prints, on stderr if it fails, and nothing else."""
        try:
            main(words)
        except SystemExit as stopped:
            assert (stopped.code or 0) == code
        else:
            assert code == 0
        output, errors = capsys.readouterr()
        assert (errors if code == 0 else output) == ""
        return errors or output

    listed = said("recipes", "--plugin", "qr_dqn")
    assert "qr-dqn" in listed and "gala-a2c" not in listed
    helped = said("train", "qr-dqn", "--plugin=qr_dqn", "--help")
    assert "--quantiles" in helped and "Number of quantiles of the return. [200]" in helped
    missing = said("recipes", "--plugin", "qr_dnq", code=2)
    assert missing.startswith("veldt: the plug-in 'qr_dnq' is not a module that Python finds")
    assert "--plugin is without a value" in said("recipes", "--plugin", code=2)
    both = said("recipes", "--plugin", "qr_dqn,gala")
    assert "qr-dqn" in both and "gala-a2c" in both
    assert "--plugin is without a value" in said("recipes", "--plugin", "qr_dqn,", code=2)


def test_a_run_in_another_shell(tmp_path: Path) -> None:
    """Resumed where the plug-in is found, refused where it is missing; a foreign plug-in is not imported."""
    run, mine, other = tmp_path / "run", tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    (mine / "my_plugin.py").write_text((EXAMPLES / "qr_dqn.py").read_text())
    words = ["--env", "CartPole-v1", "--steps", "600", "--threads", "1", "--learning-starts", "200"]
    home = tmp_path / "home"
    trained = command(
        "train", "qr-dqn", "--plugin", "my_plugin", *words, "--run-dir", str(run), cwd=mine, home=home
    )
    assert trained.returncode == 0, trained.stderr
    resumed = command("resume", str(run), "--steps", "900", cwd=mine, home=home)
    assert resumed.returncode == 0, resumed.stderr
    lost = command("evaluate", str(run), "--episodes", "1", cwd=other, home=home)
    assert lost.returncode == 2
    assert "the plug-in 'my_plugin' is not a module that Python finds" in lost.stderr
    # The same file beside a run of somebody else, whom this user has never trained with.
    stranger = tmp_path / "stranger"
    refused = command("evaluate", str(run), "--episodes", "1", cwd=mine, home=stranger)
    assert refused.returncode == 2
    assert f"imported from {mine / 'my_plugin.py'}: this is code" in refused.stderr
    for consent in (["--trust"], ["--plugin", "my_plugin"]):
        allowed = command("evaluate", str(run), "--episodes", "1", *consent, cwd=mine, home=stranger)
        assert allowed.returncode == 0, allowed.stderr


def install(site: Path, module: str, source: str) -> None:
    """Writes what `pip install` would: a module, and the metadata with its entry point."""
    info = site / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (site / f"{module}.py").write_text(source)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[veldt.plugins]\n{module} = {module}\n")


def test_installed_plugins_need_no_flag(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "veldt_qr", (EXAMPLES / "qr_dqn.py").read_text())
    listed = command("recipes", "--matrix", cwd=tmp_path, path=site)
    assert any(line.split()[:2] == ["qr-dqn", "qr-dqn"] for line in listed.stdout.splitlines())
    words = ["--env", "CartPole-v1", "--steps", "400", "--threads", "1", "--learning-starts", "200"]
    words += ["--actors", "1", "--num-envs", "4", "--hidden", "8", "--run-dir", str(tmp_path / "run")]
    trained = command("train", "apex-dqn", "--algorithm", "qr-dqn", *words, cwd=tmp_path, path=site)
    assert trained.returncode == 0, trained.stderr
    played = command("evaluate", str(tmp_path / "run"), "--episodes", "1", cwd=tmp_path, path=site)
    assert played.returncode == 0, played.stderr


NETWORK = """
import veldt
from torch import nn

def tiny(shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0], 8), nn.Tanh())

veldt.register_network("tiny", tiny)
"""


def test_a_registered_network_reaches_every_process(tmp_path: Path) -> None:
    (tmp_path / "tiny_net.py").write_text(NETWORK)
    words = [
        "--plugin",
        "tiny_net",
        "--network",
        "tiny",
        "--env",
        "CartPole-v1",
        "--steps",
        "1000",
        "--threads",
        "1",
    ]
    words += ["--learning-starts", "200", "--actors", "2", "--num-envs", "4", "--run-dir", "run"]
    trained = command("train", "apex-dqn", *words, cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    assert json.loads((tmp_path / "run" / "config.json").read_text())["resolved"]["plugins"] == ["tiny_net"]
    played = command("evaluate", "run", "--episodes", "1", cwd=tmp_path)
    assert played.returncode == 0, played.stderr
    unknown = command("train", "dqn", *words[:2], "--network", "tny", *words[4:6], cwd=tmp_path)
    assert "no network 'tny' (did you mean 'tiny'?)" in unknown.stderr
    assert "or give your own as module:function" in unknown.stderr


BROKEN = """
import veldt
from veldt.algorithms.ppo import PPO, PPOConfig
veldt.register_algorithm("broken", PPO, PPOConfig)
raise RuntimeError("half installed")
"""


def test_a_broken_plugin_breaks_only_what_needs_it(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "veldt_broken", BROKEN)
    listed = command("recipes", cwd=tmp_path, path=site)
    assert listed.returncode == 0
    assert "the plug-in veldt_broken could not be imported (RuntimeError: half installed)" in listed.stdout
    failed = command("train", "broken-dqn", "--env", "CartPole-v1", cwd=tmp_path, path=site)
    assert failed.returncode == 2
    assert "the plug-in veldt_broken could not be imported (RuntimeError: half installed)" in failed.stderr


def test_an_installed_plugin_that_trains_as_it_is_imported_is_refused(tmp_path: Path) -> None:
    """Every command imports it, and every process of a run."""
    site = tmp_path / "site"
    install(site, "veldt_trains", 'import veldt\nveldt.train("ppo", env="CartPole-v1", steps=200)\n')
    listed = command("recipes", cwd=tmp_path, path=site)
    assert listed.returncode == 0 and not (tmp_path / "runs").exists()
    refused = f"{site / 'veldt_trains.py'}:2 begins a training while it is imported"
    assert f"the plug-in veldt_trains could not be imported (UsageError: {refused}" in listed.stdout


def test_a_package_that_fails_after_its_submodule_leaves_nothing(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "veldt_half", BROKEN)
    package = site / "veldt_half"
    package.mkdir()
    (site / "veldt_half.py").rename(package / "__init__.py")
    registers, fails = BROKEN.strip().rsplit("\n", 1)
    (package / "parts.py").write_text(registers)
    (package / "__init__.py").write_text(f"import veldt_half.parts\n{fails}")
    listed = command("recipes", "--matrix", cwd=tmp_path, path=site)
    assert listed.returncode == 0 and "broken" not in listed.stdout


def test_a_plugin_that_is_named_as_a_file(tmp_path: Path) -> None:
    failed = command("recipes", "--plugin", "mine.py", cwd=tmp_path)
    assert failed.returncode == 2
    assert "the plug-in 'mine.py' is a file: give the module's name, 'mine'" in failed.stderr


SCRIPT = """
import sys
import veldt
from veldt.algorithms.ppo import PPO, PPOConfig

class Mine(PPO):
    name = "mine"

veldt.register_algorithm("mine", Mine, PPOConfig)
if __name__ == "__main__":
    run = veldt.train(sys.argv[1], algorithm="mine", env="CartPole-v1", steps=600, quiet=True, threads=1, run_dir="run")
    print(veldt.load(run.path).config.algorithm)
"""


def test_an_algorithm_of_a_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    run = [sys.executable, "script.py"]
    one = subprocess.run(
        [*run, "ppo"], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert one.stdout == "mine\n", one.stderr
    many = subprocess.run(
        [*run, "appo"], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert "registered by the script itself: move it into a file of its own" in many.stderr
    again = command("evaluate", "run", cwd=tmp_path)
    assert again.returncode != 0 and "algorithm 'mine'" in again.stderr


def test_unknown_plugins_in_a_configuration(tmp_path: Path, qr_dqn: None) -> None:
    run = veldt.train("qr-dqn", run_dir=tmp_path / "run", **SHORT | {"steps": 300})
    config = run.path / "config.json"
    for wrong in ('["os; import os"]', '["../evil"]', '["os..path"]', '["json:load"]', '["1st"]', '[""]'):
        config.write_text(config.read_text().replace('"qr_dqn"', wrong[1:-1], 1))
        with pytest.raises(UsageError, match="is not a module that Python finds"):
            veldt.load(run.path)
        config.write_text(config.read_text().replace(wrong[1:-1], '"qr_dqn"', 1))
