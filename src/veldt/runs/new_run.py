"""Makes the directory of a new run, and removes it if the run fails before its first checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from veldt.errors import UsageError
from veldt.runs.checkpoints import CheckpointStore
from veldt.runs.directory import RunDirectory
from veldt.runs.own_files import remove_own_tree
from veldt.runs.own_names import CONFIG, OF_RUN


@contextlib.contextmanager
def new_run(run_dir: str | Path | None, name: str, base: str | Path | None = None) -> Iterator[RunDirectory]:
    """Makes `run_dir` (None: `runs/<name>`), and removes it again if the block fails before the first checkpoint.

    `base` is the directory that a relative path begins at; None: the working directory.

    Without a checkpoint there is nothing to resume, and the directory would block the next attempt. Files that the run
    did not write are kept, and the directory with them.

    Raises:
        UsageError: `run_dir` exists.
        VeldtError: it cannot be made.
    """
    path = None if run_dir is None else Path(run_dir)
    if path is None:
        directory = RunDirectory.create(Path("runs"), name, base)
    elif (is_there := _exists(there := RunDirectory(path, base))) and not there.place.is_dir():
        raise UsageError(f"--run-dir {path} is a file: name a new directory")
    elif is_there:
        if there.is_locked():
            advice = "another process is training in it, so name a new directory"
        elif CheckpointStore(there.checkpoints).has_any():
            advice = f"name a new directory, or `veldt resume {path}`"
        elif (there.place / CONFIG).is_file():
            advice = (
                "name a new directory, or remove it: its run has no checkpoint, so nothing can be resumed"
            )
        else:
            advice = "name a new directory (it contains no run)"
        raise UsageError(f"--run-dir {path} exists already: {advice}")
    elif there.place.is_symlink():
        raise UsageError(
            f"--run-dir {path} is a link to {there.place.readlink()}, which does not exist: name a new directory"
        )
    else:
        directory = RunDirectory.create(path.parent, path.name, base)
    try:
        yield directory
    except BaseException:
        # Where somebody has removed the checkpoints, what else the run has recorded is worth keeping.
        if not directory.had_checkpoint and not CheckpointStore(directory.checkpoints).has_any():
            remove_own_tree(directory.place, OF_RUN)
        raise


def _exists(directory: RunDirectory) -> bool:
    try:
        return directory.place.exists()
    except OSError as error:  # a name of 300 letters, for example
        raise UsageError(
            f"--run-dir {directory.path} cannot be looked up ({error.strerror}): name another directory"
        ) from None


def run_name(recipe: str, env: str, seed: int, algorithm: str | None = None) -> str:
    """Returns `<recipe>-<env>-<seed>`, or `<recipe>-<algorithm>-...` for an algorithm that is not the recipe's own.

    Of an environment `module:outer.<locals>.<lambda>`, only the last name.
    """
    function = env.rpartition(":")[2].rpartition(".<locals>.")[2].strip("<>")
    recipe = f"{recipe}-{algorithm}" if algorithm else recipe
    return f"{recipe}-{''.join(c if c.isalnum() or c in '-_.' else '-' for c in function)}-{seed}"
