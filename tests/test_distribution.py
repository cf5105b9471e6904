"""The sdist builds, and has all that is needed to install and to test it; the wheel has the package alone."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
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
    run_tests(sys.executable, unpacked, ["tests/functional/test_losses.py"], PYTHONPATH=str(unpacked / "src"))


@pytest.mark.long
def test_the_tests_of_the_sdist_pass_with_what_it_installs(distributions: Path, tmp_path: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
    # What veldt needs is of the present environment, and veldt itself is what pip makes of the sdist.
    venv.create(tmp_path / "venv", symlinks=True, with_pip=False)
    python = str(tmp_path / "venv/bin/python")
    packages = sysconfig.get_path("purelib", vars={"base": str(tmp_path / "venv")})
    install = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", packages]
    subprocess.run([sys.executable, "-m", "pip", *install, str(unpacked)], check=True, timeout=100)
    present = [path for path in sys.path if path.endswith("-packages")]
    Path(packages, "present.pth").write_text("".join(f"{path}\n" for path in present))

    found = [python, "-I", "-c", "import veldt; print(veldt.__file__)"]
    place = subprocess.run(
        found, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=100
    ).stdout
    assert Path(place.strip()) == Path(packages, "veldt/__init__.py")
    tests = [
        "cli/test_guard.py",
        "config/test_versions.py",
        "functional/test_vtrace.py",
        "runs/test_run_directory.py",
    ]
    run_tests(python, unpacked, [f"tests/{name}" for name in tests])


def run_tests(python: str, root: Path, tests: list[str], **environment: str) -> None:
    """Runs these files or folders of `root` there, and asserts that they pass."""
    done = subprocess.run(
        [python, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not long and not exhaustive", *tests],
        cwd=root,
        env={**environment, "PATH": "/usr/bin:/bin", "HOME": str(root)},
        capture_output=True,
        text=True,
        timeout=200,
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


def test_the_citation_has_the_version_and_the_image_is_made_of_files_that_are_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"\nversion: {project['version']}\n" in (ROOT / "CITATION.cff").read_text()
    dockerfile = (ROOT / "Dockerfile").read_text()
    copied = [line.split()[1:-1] for line in dockerfile.splitlines() if line.startswith("COPY ")]
    assert copied and all((ROOT / name).exists() for names in copied for name in names)
    assert "constraints.txt" in copied[0]
    extras = re.findall(r"'\.\[(.*?)\]'", dockerfile)
    assert extras and set(extras[0].split(",")) <= set(project["optional-dependencies"])
