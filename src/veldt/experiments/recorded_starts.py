"""Files of recorded starts, one for each game, from which an experiment evaluates the runs that it has trained."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from veldt.envs.source import ATARI_PREFIX
from veldt.errors import UsageError, VeldtError
from veldt.evaluation.starts import Starts, read_starts
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.formatting import counted
from veldt.report.normalising import game_key
from veldt.runs.files import read_file

_SUFFIX = ".safetensors"
_DIGITS = 12  # of a checksum: enough to tell files apart


@dataclass(frozen=True, eq=False)
class RecordedStarts:
    """The starts of one game, as its file had them when the experiment was asked for; `checksum` is of the file."""

    env: str
    content: Starts
    checksum: str

    @property
    def path(self) -> Path:
        return self.content.path

    @property
    def by(self) -> str:
        """Who played before the starts: "person", "agent", or "" if the file does not say."""
        by = self.content.made.get("by")
        return by if by in ("person", "agent") else ""

    @property
    def steps(self) -> int:
        """About how many agent steps an evaluation makes, to the starts and from there.

        A start is at a uniformly random step of an episode: in the mean as many steps follow as came before.
        """
        return 2 * sum(self.content.lengths)

    def check_unchanged(self) -> None:
        """Raises VeldtError if the file is another than when the experiment was asked for: scores would mix the two."""
        try:
            is_same = _checksum(self.path) == self.checksum
        except OSError as error:
            raise VeldtError(f"{self.path} cannot be read any more: {error.strerror or error}") from error
        if not is_same:
            raise VeldtError(f"{self.path} was changed after the experiment had begun: put back what it was")


def with_starts(experiment: Experiment, request: Request, directory: Path) -> Request:
    """Returns the request with the starts that a directory has of the experiment's games: `GAME.safetensors` of each.

    Raises:
        UsageError: there is no such directory; it has no file of these games, or two of one; or a file cannot be read,
            or is of another environment.
    """
    files = _files(directory)
    envs = dict.fromkeys(job.env for job in experiment.jobs(request) if isinstance(job, Training))
    found = [RecordedStarts(env, *_read(path, env)) for env in envs if (path := _file_of(env, files))]
    if not found:
        name = file_name_of(next(iter(envs)))
        more = f" or {counted(len(envs) - 1, 'other', 'others')}" if len(envs) > 1 else ""
        has = ", ".join(path.name for path in files[:3]) or f"no *{_SUFFIX} at all"
        raise UsageError(
            f"--starts {directory} has no file of starts for a game of the experiment ({name}{more}; it has {has}): "
            "record some by `veldt record-starts` with --out, or name files by their games"
        )
    return dataclasses.replace(request, starts=tuple(found))


def file_name_of(env: str) -> str:
    """Returns the usual name of the file with the starts of an Atari game: Pong.safetensors for ALE/Pong-v5."""
    return env.removeprefix(ATARI_PREFIX).removesuffix("-v5") + _SUFFIX


def _files(directory: Path) -> list[Path]:
    """Returns the files of starts in a directory. UsageError if it is none, or cannot be read."""
    needs = (
        f"a file of starts for each game, such as Pong{_SUFFIX} (`veldt record-starts` with --out makes one)"
    )
    try:
        return sorted(path for path in directory.iterdir() if path.name.endswith(_SUFFIX))
    except FileNotFoundError:
        raise UsageError(f"--starts {directory}: there is no such directory; name one with {needs}") from None
    except NotADirectoryError:
        raise UsageError(f"--starts {directory} is a file: name a directory with {needs}") from None
    except OSError as error:
        raise UsageError(
            f"--starts {directory} cannot be read ({error.strerror}): name a directory with {needs}"
        ) from error


def _file_of(env: str, files: Sequence[Path]) -> Path | None:
    """Returns the file that is named by the game, in any spelling; None if there is none."""
    named = [path for path in files if game_key(path.name.removesuffix(_SUFFIX)) == game_key(env)]
    if len(named) > 1:
        both = " and ".join(path.name for path in named[:2])
        raise UsageError(
            f"--starts {named[0].parent} has two files of starts for {env}, {both}: remove one of them"
        )
    return named[0] if named else None


def _read(path: Path, env: str) -> tuple[Starts, str]:
    """Returns the starts in a file that is named by the game of `env`, and the file's checksum."""
    starts = read_starts(path)
    if starts.env != env:
        raise UsageError(
            f"--starts: {path} has starts of {starts.env}, and its name is that of a file for {env}: rename it, or "
            f"record starts of {env}"
        )
    return starts, _checksum(path)


def _checksum(path: Path) -> str:
    return hashlib.sha256(read_file(path)).hexdigest()[:_DIGITS]
