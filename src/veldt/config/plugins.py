"""The plug-ins that a run's config.json names: imported only with the user's consent.

The run may be of another user, and a module in its own directory could have a plug-in's name. See `run_code`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from veldt.config.stored_config import from_dict
from veldt.config.train_config import TrainConfig
from veldt.errors import CheckpointError, UsageError
from veldt.registry import import_plugins, installed_plugins
from veldt.user_code.trusted import find_code, is_remembered


def read_run_config(run: Path, values: Mapping[str, Any], trust: bool) -> TrainConfig:
    """Returns the configuration of a run from its config.json, after the import of the plug-ins that it names.

    A plug-in is imported if it is installed as one, if this process has imported it already, if the user has trained
    with the same files on this machine, or with `trust`.

    Args:
        run: the run's directory, for messages.
        values: the section "resolved" of config.json.

    Raises:
        UsageError: a plug-in is missing here, or it is code that the user has neither named nor trained with.
        PluginError: a plug-in's own code raised an exception.
        CheckpointError: the configuration is not one that veldt wrote.
    """
    plugins = values.get("plugins", [])
    if not isinstance(plugins, list) or not all(isinstance(module, str) for module in plugins):
        raise CheckpointError(f"the plug-ins of {run} are {plugins!r}: config.json is not as veldt wrote it")
    for module in plugins:
        if module == "__main__":
            # The script that is running may have registered the same parts; if not, `from_dict` says what is missing.
            continue
        if not (trust or module in installed_plugins() or module in sys.modules):
            _refuse_foreign(run, module)
        import_plugins([module])
    return from_dict(values)


def _refuse_foreign(run: Path, module: str) -> None:
    """Raises UsageError for a plug-in that exists and that the user has not trained with."""
    code = find_code("plugin", module, {}, module)
    if code is not None and not is_remembered(code):
        files = " and ".join(code.files) or "no file"
        raise UsageError(
            f"{run} needs the plug-in {module}, imported from {files}: this is code, and you have not trained with it "
            f"on this machine; add --trust if you trust the run, or name it yourself with --plugin {module} (in Python "
            f"trust=True, or import {module} first)"
        )
