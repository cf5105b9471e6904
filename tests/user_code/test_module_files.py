"""`find_module` names the files that an import would run, and imports nothing."""

from __future__ import annotations

import importlib
import os
import sys
import zipfile
from pathlib import Path

import pytest

from veldt.user_code.import_path import load_function
from veldt.user_code.module_files import find_module

FILES = {
    "plain_m.py": "",
    "pack_m/__init__.py": "",
    "pack_m/sub.py": "",
    "pack_m/inner/__init__.py": "",
    "pack_m/inner/leaf.py": "",
    "space_m/deep/leaf.py": "",
}


@pytest.fixture
def here(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name, text in FILES.items():
        (in_tmp / name).parent.mkdir(parents=True, exist_ok=True)
        (in_tmp / name).write_text(text)
    importlib.invalidate_caches()
    return in_tmp.resolve()


@pytest.mark.parametrize(
    ("module", "files"),
    [
        ("plain_m", ["plain_m.py"]),
        ("pack_m", ["pack_m/__init__.py"]),
        ("pack_m.sub", ["pack_m/__init__.py", "pack_m/sub.py"]),
        ("pack_m.inner.leaf", ["pack_m/__init__.py", "pack_m/inner/__init__.py", "pack_m/inner/leaf.py"]),
        ("space_m.deep.leaf", ["space_m/deep/leaf.py"]),
    ],
)
def test_files_are_the_same_before_and_after_the_import(module: str, files: list[str], here: Path) -> None:
    before = find_module(module)
    assert not {name for name in sys.modules if name.partition(".")[0] in ("plain_m", "pack_m", "space_m")}
    assert before is not None
    assert before.files == tuple(str(here / file) for file in files)
    assert before.root == str(here)
    sys.path.insert(0, str(here))
    try:
        importlib.import_module(module)
        assert find_module(module) == before
    finally:
        for name in [
            name for name in sys.modules if name.partition(".")[0] in ("plain_m", "pack_m", "space_m")
        ]:
            del sys.modules[name]


@pytest.mark.parametrize(
    "module", ["nosuch_m", "plain_m.sub", "pack_m.nosuch", "", ".pack_m", "a/b", "pack_m."]
)
def test_missing_modules_and_wrong_names_are_none(module: str, here: Path) -> None:
    assert find_module(module) is None


def test_parts_of_python_itself() -> None:
    found = find_module("posix")
    assert found is not None and found.files == ("posix (built into Python)",)
    found = find_module("os")
    assert found is not None and found.files == (os.path.realpath(os.__file__),)


def test_a_module_in_a_zip_file(here: Path) -> None:
    with zipfile.ZipFile("more.zip", "w") as archive:
        archive.writestr("zipped_m.py", "")
    sys.path.append(str(here / "more.zip"))
    found = find_module("zipped_m")
    assert found is not None and found.files == (str(here / "more.zip" / "zipped_m.py"),)


def test_a_link_to_the_directory_is_the_directory_and_one_within_is_not(here: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(here)
    (here / "linked_m").symlink_to(here / "pack_m")
    sys.path.append(str(link))
    found = find_module("linked_m.sub")
    assert found is not None and found.files[-1] == str(here / "linked_m" / "sub.py")


def test_the_working_directory_is_for_functions_that_are_there(here: Path) -> None:
    """Imports of a function from another directory must not be searched in the working directory."""
    load_function("environments:scripted", "environment")
    assert os.getcwd() not in sys.path
    Path("plain_m.py").write_text("make = print")
    try:
        load_function("plain_m:make", "environment")
        assert sys.path[0] == os.getcwd()
    finally:
        sys.modules.pop("plain_m", None)
