"""What an experiment is: the jobs that it needs, and how their results become figures and tables."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from veldt.config.recipe_registry import RECIPES
from veldt.experiments.planning.games import env_of_game
from veldt.setting_text import as_words

if TYPE_CHECKING:
    from veldt.experiments.figures import Exhibit
    from veldt.experiments.recorded_starts import RecordedStarts
    from veldt.experiments.results import Results

# Of an evaluation, on one core; an Atari policy plays at about this speed.
_EVALUATION_START_S, _EVALUATION_SPS = 8.0, 500.0

Scale = Literal["small", "paper"]


@dataclass(frozen=True)
class Request:
    """What the user asks of an experiment.

    `seeds` is the number of seeds (1, 2, ...). `games` are the ids of environments, and `recipes` the names of recipes,
    () for those of the experiment. From `starts`, the runs of their games are evaluated.
    """

    scale: Scale
    seeds: int
    games: tuple[str, ...] = ()
    recipes: tuple[str, ...] = ()
    starts: tuple[RecordedStarts, ...] = ()

    @property
    def is_small(self) -> bool:
        return self.scale == "small"

    @property
    def seed_range(self) -> range:
        return range(1, self.seeds + 1)

    def envs(self, *default: str) -> tuple[str, ...]:
        """Returns the ids of the environments: `games`, or `default` without any."""
        return self.games or default


@dataclass(frozen=True, kw_only=True, eq=False)  # a job is only itself: the key of its result
class Training:
    """One training run.

    `group` is the label of runs that differ in their seed only, `panel` the chart that shows them (the environment if
    "") and `x` the group's place on a horizontal axis. `settings` are by name, as for `veldt.train`; `cores` is how
    many cores it keeps busy, 0 for all of the machine's.
    """

    group: str
    recipe: str
    env: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    panel: str = ""
    x: float = float("nan")
    cores: int = 1

    @property
    def chart(self) -> str:
        return self.panel or self.env

    @property
    def name(self) -> str:
        return file_name(f"{self.chart} {self.group} {self.seed}")

    @property
    def words(self) -> list[str]:
        """The verb, what is trained, and where."""
        return ["train", self.recipe, "--env", self.env]

    @property
    def flags(self) -> list[str]:
        """The settings as flags."""
        return [word for name, value in self.settings.items() for word in as_words(name, value)]

    def command(self, directory: Path) -> list[str]:
        """Returns the command that trains the run in `directory`."""
        where = ["--seed", str(self.seed), "--run-dir", str(directory)]
        plugin = RECIPES.plugin_of(self.recipe)
        registered_by = ["--plugin", plugin] if plugin else []
        return [sys.executable, "-m", "veldt", *self.words, *where, *self.flags, *registered_by]

    def resume_command(self, directory: Path) -> list[str]:
        """Returns the command that continues the run in `directory`, also on a machine where it was not begun."""
        # A function that only the run named would be code that the user has not trained with there.
        named = ["--env", self.env] if ":" in self.env else []
        return [sys.executable, "-m", "veldt", "resume", str(directory), *named]


@dataclass(frozen=True, kw_only=True, eq=False)  # a job is only itself: the key of its result
class Measurement:
    """One measurement: a command of `veldt` that prints a JSON object. Else as `Training`."""

    group: str
    words: tuple[str, ...]
    seconds: float
    x: float = float("nan")
    panel: str = ""
    cores: int = 0  # 0: all of the machine's

    @property
    def chart(self) -> str:
        return self.panel

    @property
    def name(self) -> str:
        return file_name(f"{self.panel} {self.group} {self.x:g}")

    def command(self) -> list[str]:
        """Returns the command."""
        return [sys.executable, "-m", "veldt", *self.words]


@dataclass(frozen=True, kw_only=True, eq=False)  # a job is only itself: the key of its result
class Evaluation:
    """The evaluation of a trained run from recorded starts; it begins when its training `of` is done."""

    of: Training
    starts: RecordedStarts
    cores: int = 1

    @property
    def group(self) -> str:
        return self.of.group

    @property
    def chart(self) -> str:
        return self.of.chart

    @property
    def seconds(self) -> float:
        """About how long it takes."""
        return _EVALUATION_START_S + self.starts.steps / _EVALUATION_SPS

    @property
    def name(self) -> str:
        return f"{self.of.name}-from-starts"

    def command(self, run: Path) -> list[str]:
        """Returns the command that evaluates the run in the directory `run`."""
        what = ["evaluate", str(run), "--starts", str(self.starts.path), "--json"]
        registered_by = RECIPES.plugin_of(self.of.recipe)
        return [sys.executable, "-m", "veldt", *what, *(["--plugin", registered_by] if registered_by else [])]


Job = Training | Measurement | Evaluation


def needed_by(job: Job) -> Training | None:
    """Returns the training that has to be done before a job can begin; None if it can begin at once."""
    return job.of if isinstance(job, Evaluation) else None


def with_evaluations(trainings: Iterable[Training], request: Request) -> list[Job]:
    """Returns the trainings, each with its evaluation after it if there are recorded starts of its environment."""
    starts = {one.env: one for one in request.starts}
    jobs: list[Job] = []
    for training in trainings:
        jobs.append(training)
        if training.env in starts:
            jobs.append(Evaluation(of=training, starts=starts[training.env]))
    return jobs


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One figure or table of a paper.

    Args:
        name: on the command line.
        source: the paper, and its figure or table.
        shows: one sentence on what is drawn.
        seeds: the number of seeds if the user gives none, at a small scale and at the paper's.
        jobs: returns the runs and measurements.
        draw: returns the figures and tables of the results, and what they show, what the paper finds and whether the
            two agree.
        differs: sentences on what differs from the paper at a scale.
        repeats: whether several seeds make sense.
        hours: measured on two cores at a small scale, with the experiment's own seeds.
        needs: modules that must be installed, with the command that installs each.
        env_of: returns the id in `Request.games` of an environment that the user names. UsageError if it is unknown.
        normalises: whether the scores are compared with those of humans.
        compares_recipes: whether the user may name the recipes that are trained (`Request.recipes`).
        takes_starts: whether its runs can be evaluated from recorded starts (`Request.starts`).
    """

    name: str
    source: str
    shows: str
    jobs: Callable[[Request], Sequence[Job]]
    draw: Callable[[Results], Exhibit]
    differs: Callable[[Request], Sequence[str]]
    seeds: tuple[int, int] = (3, 3)
    repeats: bool = True
    hours: float = float("nan")
    needs: Mapping[str, str] = field(default_factory=dict)
    env_of: Callable[[str], str] = env_of_game
    normalises: bool = False
    compares_recipes: bool = False
    takes_starts: bool = False


def file_name(text: str) -> str:
    """Returns a text as the name of a file: lower-case letters, digits, dots and dashes."""
    return re.sub(r"[^\w.]+", "-", text.strip()).strip("-").lower()
