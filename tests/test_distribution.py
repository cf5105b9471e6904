"""The sdist builds, and has all that is needed to install and to test it; the wheel has the package alone."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def source_files(root: Path = ROOT) -> set[str]:
    """The tracked files of a repository, or what an unpacked sdist says that it has."""
    if (root / ".git").exists():
        command = ["git", "ls-files"]
        listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    else:
        listed = (root / "src/veldt.egg-info/SOURCES.txt").read_text()
    made = ("PKG-INFO", "setup.cfg", "src/veldt.egg-info/")  # by the building itself
    return {name for name in listed.split("\n") if (root / name).is_file() and not name.startswith(made)}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the sdist, and the wheel that was built from it."""
    out = tmp_path_factory.mktemp("dist")
    copy = tmp_path_factory.mktemp("copy") / "veldt"
    for name in source_files():  # building writes into the source tree
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(copy)]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    return out


def test_the_sdist_has_every_file_of_the_repository(distributions: Path, tmp_path: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        archive.extractall(tmp_path, filter="data")
    assert source_files() - names - {".gitignore"} == set()
    # Its tests run from itself, these here included.
    (unpacked,) = tmp_path.iterdir()
    assert source_files(unpacked) == source_files() - {".gitignore"}
    tests = ["tests/functional/test_losses.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests],
        cwd=unpacked,
        env={"PYTHONPATH": str(unpacked / "src"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]


def test_the_wheel_has_the_package_alone(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"veldt"}
    packaged = {name for name in names if name.startswith("veldt/")}
    sources = (ROOT / "src/veldt").rglob("*")
    kinds = (".py", ".csv", ".typed")
    assert packaged == {str(path.relative_to(ROOT / "src")) for path in sources if path.suffix in kinds}
