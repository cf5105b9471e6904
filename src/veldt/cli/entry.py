"""Dispatches the words after `veldt` to a verb, and converts its result or error to an exit code."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence

from veldt.cli.arguments import HelpShown
from veldt.cli.limits import limit_reached
from veldt.cli.streams import complain, kept_streams, prepare_streams, show
from veldt.cli.tracebacks import raised_by_others, users_part
from veldt.cli.verbs import experiment, exporting, inspecting, recipes, starts, training, tune
from veldt.errors import UsageError, VeldtError, described, did_you_mean
from veldt.runtime.endings import ENDINGS
from veldt.user_code.attribution import naming_user_code
from veldt.user_code.working_directory import working_directory

HELP = """veldt: distributed deep reinforcement learning

  veldt train RECIPE --env ENV   train; veldt train ppo --help lists all flags
  veldt resume RUN               continue from the newest checkpoint
  veldt evaluate RUN             play episodes, or from recorded starts
  veldt watch RUN                make a video of an episode
  veldt report RUN [RUN ...]     write an HTML file: curves, times, settings
  veldt export RUN               write the policy as a model repository; ONNX
  veldt recipes [NAME]           list recipes, or all values of one with sources
  veldt doctor                   show this machine and the plan of each recipe
  veldt tune RECIPE --env ENV    search for the settings with the best score
  veldt reproduce RUN            train again with the same plan, and compare
  veldt record-starts RUN        record starts inside episodes, to evaluate from
  veldt bench sampling|training  measure speed beside the machine's limit
  veldt experiment NAME          make a figure or table of a paper (--list)

RUN is the directory of a run: runs/RECIPE-ENV-SEED, unless you name another.
Add --help to any of them for its flags, --plugin MODULE for your own
algorithms, systems and recipes, or --debug for a traceback. veldt --version
prints the version.
Exit codes: 0 done, 1 failure, 2 usage, 130 interrupted. A train or resume that
is interrupted is done (0) once it has written its checkpoint."""

_CONSEQUENCE_S = 2.0  # seconds after an interrupt in which an error is taken for its consequence

# A verb takes its arguments and returns the text to print.
VERBS: Mapping[str, Callable[[list[str]], str]] = {
    "train": training.train,
    "resume": training.resume,
    "reproduce": training.reproduce,
    "evaluate": inspecting.evaluate,
    "record-starts": starts.record_starts,
    "watch": inspecting.watch,
    "report": inspecting.report,
    "export": exporting.export,
    "recipes": recipes.recipes,
    "doctor": inspecting.doctor,
    "bench": inspecting.bench,
    "tune": tune.tune,
    "experiment": experiment.experiment,
}


def run(argv: Sequence[str] | None) -> None:
    """See `veldt.cli.main`."""
    prepare_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        with _ended_like_interrupted(), naming_user_code():
            with kept_streams():
                text = _dispatch(arguments)
            show(text)
    except VeldtError as error:
        if debug:
            traceback.print_exc()
        complain(f"veldt: {error}")
        for note in getattr(error, "__notes__", ()):
            complain(note)
        if limit := limit_reached(error):
            complain(limit)
        details = getattr(error, "details", "")
        if shown := details if debug else users_part(details):
            complain(f"\n{shown.rstrip()}")
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, HelpShown):
        raise
    except BaseException as error:
        if not debug and (limit := limit_reached(error)):
            complain(f"veldt: {limit}")
        elif not debug:
            complain(f"veldt: {described(error)} (unexpected{raised_by_others(error)}; --debug shows where)")
        elif isinstance(error, Exception):
            raise
        else:  # a SystemExit from user code, for example, with any exit code
            traceback.print_exc()
        sys.exit(1)


@contextlib.contextmanager
def _ended_like_interrupted() -> Iterator[None]:
    """Makes termination requests and closed terminals clean up as Ctrl-C does, unless they are ignored.

    Training installs its own handlers for all three once there is something to save.
    """
    asked_at = -math.inf

    def interrupt(number: int, frame: object) -> None:
        nonlocal asked_at
        asked_at = time.monotonic()
        raise KeyboardInterrupt

    previous = {}
    if threading.current_thread() is threading.main_thread():
        for number in ENDINGS:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                previous[number] = signal.signal(number, interrupt)
    try:
        yield
    except Exception:
        # A library that was being imported may have converted the interrupt into another error.
        if time.monotonic() - asked_at < _CONSEQUENCE_S:
            raise KeyboardInterrupt from None
        raise
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _dispatch(arguments: list[str]) -> str:
    if arguments[:1] == ["help"]:  # `veldt help train` is `veldt train --help`
        arguments = [*arguments[1:], "--help"]
    if not arguments or arguments[0] in ("-h", "--help"):
        return HELP
    verb = arguments[0]
    if verb in ("-V", "--version"):
        from veldt import __version__

        return f"veldt {__version__}"
    if verb not in VERBS:
        raise UsageError(f"no verb '{verb}'{did_you_mean(verb, VERBS)}: known are {', '.join(VERBS)}")
    working_directory()  # without one, torch ends the process when it is imported
    return VERBS[verb](_without_plugins(arguments[1:]))


def _without_plugins(arguments: list[str]) -> list[str]:
    """Imports the plug-ins that `--plugin MODULE` names, which may add flags and recipes. Returns the other words.

    Several have commas between them, as for `--log` and `--callback`, or a flag each.
    """
    modules: list[str] = []
    rest, words = [], iter(arguments)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag != "--plugin":
            rest.append(word)
            continue
        named = [module.strip() for module in (value if equals else next(words, "")).split(",")]
        if not all(named) or named[0].startswith("-"):
            raise UsageError(
                "--plugin is without a value: give the name of a module, such as mine for mine.py"
            )
        modules += named
    if modules:
        from veldt.registry import import_plugins

        import_plugins(modules)
    return rest
