"""From the words after `veldt` to a verb, and from what becomes of it to an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence

from veldt.cli import inspecting, training
from veldt.errors import SimulatorError, UsageError, VeldtError, did_you_mean

HELP = """veldt: any deep-RL algorithm, on any arrangement of simulators, inference, replay and learners

  veldt train RECIPE --env ENV      train (veldt train ppo --help lists every flag)
  veldt resume RUN                  go on from the newest checkpoint
  veldt evaluate RUN                play whole games
  veldt watch RUN                   make a video of a game
  veldt report RUN [RUN ...]        one HTML file: curves, where the time went, settings
  veldt recipes [NAME]              list recipes, or one with every value and its source
  veldt doctor                      what is here, and the plan training would use
  veldt bench sampling|training     speed beside the machine's limit

Add --debug to any of them for a traceback. Exit codes: 0 done, 1 failure, 2 usage."""

# A verb takes its arguments and returns what is left to print.
VERBS: Mapping[str, Callable[[list[str]], str]] = {
    "train": training.train,
    "resume": training.resume,
    "evaluate": inspecting.evaluate,
    "watch": inspecting.watch,
    "report": inspecting.report,
    "recipes": inspecting.recipes,
    "doctor": inspecting.doctor,
    "bench": inspecting.bench,
}


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line `argv` (the process's own if None).

    Raises:
        SystemExit: 1 after a failure, 2 after a usage error, each said in one sentence on stderr; 130 when
            interrupted a second time.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        _print(_dispatch(arguments))
    except KeyboardInterrupt:
        sys.exit(130)
    except VeldtError as error:
        if debug:
            traceback.print_exc()
        print(f"veldt: {error}", file=sys.stderr)
        if isinstance(error, SimulatorError) and error.details:
            print(f"\n{error.details.rstrip()}", file=sys.stderr)
        sys.exit(error.exit_code)
    except Exception as error:
        if debug:
            raise
        said = f"{type(error).__name__}: {error} (unexpected; --debug shows where)"
        print(f"veldt: {said}", file=sys.stderr)
        sys.exit(1)


def _dispatch(arguments: list[str]) -> str:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        return HELP
    verb = arguments[0]
    if verb == "--version":
        from veldt import __version__

        return f"veldt {__version__}"
    if verb not in VERBS:
        raise UsageError(f"no verb '{verb}'{did_you_mean(verb, VERBS)}: known are {', '.join(VERBS)}")
    return VERBS[verb](arguments[1:])


def _print(text: str) -> None:
    """Prints; a reader of our output that has gone (`| head`) is within its rights.

    Only here: a broken pipe anywhere else, a worker's say, is a failure like any other.
    """
    try:
        if text:
            print(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
