"""The policy's graph as machine code (AOTInductor): policy-aot.pt2, which torch loads and runs without compiling."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch._inductor
from torch import Tensor

from veldt.errors import UsageError, VeldtError, described
from veldt.runs.files import read_file, write_new_file

_LONGEST = 4 << 30  # bytes of a file; it has the weights in it


def refuse_uncompilable() -> None:
    """Raises UsageError if the graph cannot be compiled here."""
    if not hasattr(torch._inductor, "aoti_compile_and_package"):
        raise UsageError(
            f"--aot-inductor needs torch 2.6 or later, and {torch.__version__} is installed: pip install -U torch"
        )
    usual = "clang++" if platform.system() == "Darwin" else "g++"
    compiler = os.environ.get("CXX", usual)  # as torch chooses it
    if shutil.which(compiler) is None:
        raise UsageError(
            f"--aot-inductor needs a C++ compiler, and there is no {compiler}: install it, or name another by the "
            "environment variable CXX"
        )
    if len(torch.__file__.split()) > 1:
        raise UsageError(
            f"--aot-inductor cannot be used with {torch.__file__}: torch does not find its own libraries where their "
            "path has a space; install veldt in a directory without one, or use --torch-export"
        )


def write_compiled(program: torch.export.ExportedProgram, path: Path) -> None:
    """Compiles the graph for this machine's processor and writes it for `torch._inductor.aoti_load_package`.

    Raises:
        VeldtError: the graph could not be compiled.
        OSError: the file could not be written.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = torch._inductor.aoti_compile_and_package(
                program,
                package_path=str(Path(folder) / path.name),
                # Else it would always compute on as many threads as this process has now.
                inductor_configs={"cpp.dynamic_threads": True},
            )
        except Exception as error:
            raise VeldtError(
                f"the policy's network cannot be compiled ({cause_in_brief(error)}): leave out --aot-inductor, or use "
                "--torch-export"
            ) from error
        content = read_file(Path(made), _LONGEST)
    write_new_file(path, content)


def load_compiled(path: Path) -> Callable[[Sequence[Tensor]], list[Tensor]]:
    """Returns a function that runs the file as a user would."""
    module: Any = torch._inductor.aoti_load_package(str(path))
    return lambda inputs: list(module(*inputs))


def cause_in_brief(error: Exception) -> str:
    """Returns the kind of a torch error and the beginning of its message, whose rest is for torch's developers."""
    return described(error).strip().splitlines()[0][:200]
