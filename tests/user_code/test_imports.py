"""A module whose functions are used does not train as it is imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from veldt.errors import UsageError
from veldt.user_code import by_value
from veldt.user_code.import_path import load_function

TRAININGS = {
    "veldt.train": 'veldt.train("ppo", env=make, steps=1)',
    "veldt.run_roles": 'veldt.run_roles({"actor": veldt.Processes(make)})',
}
NAME = "trains_as_it_is_imported"


@pytest.fixture(params=TRAININGS)
def module(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / f"{NAME}.py"
    path.write_text(
        "import gymnasium\nimport veldt\n\n"
        f'def make():\n    return gymnasium.make("CartPole-v1")\n\n{TRAININGS[request.param]}\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield path
    sys.modules.pop(NAME, None)


def test_by_its_name(module: Path) -> None:
    with pytest.raises(UsageError) as refused:
        load_function(f"{NAME}:make", "environment")
    assert str(refused.value).startswith(f"{module}:7 begins a training while it is imported")
    assert 'below `if __name__ == "__main__":`' in str(refused.value)
    assert not (module.parent / "runs").exists()


def test_in_another_process(module: Path) -> None:
    """A program that imports the module trains as it wants to; the processes of its run do not."""
    code = by_value.dumps(_Imported(f"__import__('{NAME}').make"))
    with pytest.raises(UsageError, match="begins a training"):
        by_value.loads(code)


class _Imported:
    """Unpickled as the value of an expression, as a function of another module is by its import."""

    def __init__(self, expression: str) -> None:
        self._expression = expression

    def __reduce__(self) -> object:
        return eval, (self._expression,)
