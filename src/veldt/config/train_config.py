"""The configuration of a run: frozen, validated once, written into the run, and the source of every flag."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from veldt.algorithms.a2c import A2CConfig
from veldt.algorithms.base import Algorithm
from veldt.algorithms.off_policy import OffPolicyConfig
from veldt.algorithms.policy_gradient import PolicyGradientConfig
from veldt.algorithms.registry import ALGORITHMS
from veldt.algorithms.settings import AlgorithmConfig
from veldt.config.fit import by_actions, check_actions, check_fits, check_recurrent, recipes_with_setting
from veldt.config.system_registry import SYSTEMS
from veldt.config.system_settings import RolesConfig, SynchronousConfig
from veldt.envs.settings import AtariConfig, EnvConfig
from veldt.envs.spec import ActionSpec
from veldt.errors import UsageError
from veldt.registry import import_plugins
from veldt.replay.settings import ReplayConfig
from veldt.runs import strict_json
from veldt.setting_metadata import Unit, check_values
from veldt.setting_text import flag, shown
from veldt.tracking.loggers.choice import named_loggers
from veldt.tracking.recording import named_callbacks
from veldt.user_code.import_path import split_name

# More than any machine's cores: OpenMP would end the process where it cannot start so many.
_MOST_THREADS = 4096


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """The network from observations to features."""

    network: str = "auto"
    """auto, mlp, a3c, dqn, impala, small, or your own as module:function."""
    hidden: Annotated[tuple[int, ...], Unit("units")] = (64, 64)
    """Sizes of the MLP's layers. Only for a network that has an MLP: with auto, that of vectors."""
    layer_norm: bool = False
    """Normalises the units of the MLP's layers before each activation (Ba et al. 2016)."""
    lstm: Annotated[int, Unit("units")] = 0
    """Units of an LSTM between torso and heads (a recurrent policy); 0: none."""
    core: str = ""
    """Your own recurrent core instead of the LSTM, as module:function."""
    actor: str = ""
    """Your own actor instead of torso and head of the policy, as module:function."""
    critic: str = ""
    """Your own critic instead of torso and head of the value, as module:function."""
    model: str = ""
    """Your own whole network, with the outputs that the algorithm needs, as module:function."""
    normalise_observations: bool = False
    """Normalise observations by the running mean and deviation of the training data, then clip them to ±10. The numbers
    of Box observations only: not images (uint8) or discrete values."""

    @property
    def recurrent(self) -> str:
        """The flag that makes the network recurrent, as messages name it; "" if it is not."""
        return f"--core is {self.core}" if self.core else f"--lstm is {self.lstm}" if self.lstm else ""

    def __post_init__(self) -> None:
        check_values(self)
        if self.core and self.lstm:
            raise UsageError(
                f"--core is {self.core} and --lstm is {self.lstm}, and a network has one recurrent part: leave one out"
            )
        whole = [name for name in ("model", "actor", "critic") if getattr(self, name)]
        if whole and self.recurrent:
            raise UsageError(
                f"{self.recurrent} between the built-in torso and heads, and --{whole[0]} is "
                f"{getattr(self, whole[0])}: leave one out, or give a recurrent --model"
            )
        if "model" in whole and len(whole) > 1:
            raise UsageError(
                f"--model is {self.model}, the whole network, and --{whole[1]} is {getattr(self, whole[1])}: leave one "
                "out"
            )
        if not self.network:
            raise UsageError("--network is '': it must be auto, another name, or your own as module:function")
        if self.lstm < 0:
            raise UsageError(f"--lstm is {self.lstm}: it must be 0 (none) or more")
        if not self.hidden or min(self.hidden) < 1:
            raise UsageError(
                f"--hidden is {' '.join(map(str, self.hidden)) or 'empty'}: give at least one layer of at least 1 "
                "unit, as --hidden 64 64"
            )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """How long the run is, where it runs, and how it is recorded."""

    steps: Annotated[int, Unit("steps")] = 10_000_000
    """Agent steps of all envs together; also the length of all schedules. A run ends with the rollout that reaches
    them."""
    until: Annotated[float | None, Unit("return")] = None
    """Stop once the mean return of the last 100 episodes reaches this. If it never does, the run ends at --steps, with
    exit code 0 and a sentence that says so."""
    seed: int = 1
    """All random numbers derive from it."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N. auto takes a GPU that is there, unless the network is too small to gain from it."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Arithmetic of the torso; auto takes bf16 where it is measured to be clearly faster here. The fp32 parameters,
    heads and your own network are always fp32."""
    compile: bool = False
    """Compile the network with torch.compile (falls back, with a note, where that fails)."""
    cuda_graphs: bool = False
    """Compile the network, and capture its passes in acting and in updates as CUDA graphs, one for each shape of a
    batch (torch.compile's mode reduce-overhead). It needs a CUDA device; not for GA3C."""
    threads: Annotated[int, Unit("threads")] = 0
    """Threads for training on the CPU; 0 measures: one, or one for each core that may be used where that is at least
    1.4 times as fast here. Small networks get one."""
    checkpoint_every: Annotated[int, Unit("steps")] = 250_000
    """Steps between checkpoints; there is one at the end, too."""
    keep_checkpoints: Annotated[int, Unit("checkpoints")] = 3
    """Number of newest checkpoints that are kept, besides the best."""
    checkpoint_replay: Literal["full", "none"] = "full"
    """Whether checkpoints include the replay buffer; with none, a resumed run fills it again."""
    log_every: Annotated[float, Unit("seconds")] = 2.0
    """Seconds between rows of metrics.jsonl."""
    log: str = "tensorboard"
    """What gets the metrics, besides metrics.jsonl: tensorboard, wandb, trackio, mlflow (several with commas between
    them), none, or a logger of your own as module:function, which is called with the run's directory."""
    log_norms: bool = False
    """Log the L2 norms of the weights, the gradient and the step of each parameter (norms/...)."""
    log_saturation: bool = False
    """Log the cosine of the gradients of each batch and of half of it (train/gradient_cosine), which costs half an
    update more. Half a batch is half of its rows; with V-trace or a recurrent network half of its rollouts."""
    callback: str | None = None
    """A callback of your own as module:function, which is called with the run's directory (several with commas)."""
    evaluate_every: Annotated[int, Unit("steps")] = 0
    """Steps between evaluations; there is one at the end of a run of at least as many; 0: never. Training pauses for
    it, or an evaluator process plays beside training: then an evaluation is skipped while another one is running."""
    evaluate_steps: Annotated[int, Unit("steps")] = 125_000
    """Steps of an evaluation: the whole episodes in them count, as in `veldt evaluate RUN --protocol atari`."""

    def __post_init__(self) -> None:
        check_values(self)
        if self.steps <= 0:
            raise UsageError(f"--steps is {self.steps}: it must be more than 0")
        for name in ("checkpoint_every", "keep_checkpoints", "evaluate_steps"):
            if getattr(self, name) < 1:
                raise UsageError(f"{flag(name)} is {getattr(self, name)}: it must be at least 1")
        if self.seed < 0:
            raise UsageError(f"--seed is {self.seed}: it must be 0 or more")
        if self.evaluate_every < 0:
            raise UsageError(f"--evaluate-every is {self.evaluate_every}: it must be 0 (never) or more")
        if self.threads < 0:
            raise UsageError(f"--threads is {self.threads}: it must be 0 (automatic) or more")
        if self.threads > _MOST_THREADS:
            raise UsageError(f"--threads is {self.threads}: it must be at most {_MOST_THREADS:,}")
        if self.log_every < 0:
            raise UsageError(f"--log-every is {self.log_every}: it must be 0 seconds or more")
        named_loggers(self.log)
        for name in named_callbacks(self.callback):
            split_name(name, "callback")

    @property
    def compiles(self) -> bool:
        """Whether the network is compiled: CUDA graphs are made of the compiled network."""
        return self.compile or self.cuda_graphs


# Settings that may change when a run is resumed: its length and how it is recorded.
RESUMABLE = (
    "steps",
    "until",
    "checkpoint_every",
    "keep_checkpoints",
    "checkpoint_replay",
    "log_every",
    "log",
    "callback",
    "evaluate_every",
    "evaluate_steps",
)


# Sections of the configuration that hold settings.
SECTIONS = ("run", "learn", "replay", "network", "envs", "atari", "roles")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything about a run.

    Args:
        recipe: where the defaults came from.
        plugins: modules that register the recipe, the algorithm, the system or the network, where that is not veldt.
    """

    recipe: str
    algorithm: str
    system: str = "synchronous"
    plugins: tuple[str, ...] = ()
    env: str
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    run: RunConfig = RunConfig()
    learn: AlgorithmConfig = A2CConfig()
    replay: ReplayConfig | None = None
    network: NetworkConfig = NetworkConfig()
    envs: EnvConfig = EnvConfig()
    atari: AtariConfig = AtariConfig()
    roles: RolesConfig = field(default_factory=SynchronousConfig)

    def __post_init__(self) -> None:
        check_values(self)
        check_fits(self.system, self.algorithm)
        if self.replay is None:
            self._check_without_replay()
        settings = SYSTEMS[self.system].settings
        if type(self.roles) is not settings:
            raise UsageError(f"the system {self.system} has settings of its own, {settings.__name__}")
        if isinstance(self.learn, OffPolicyConfig) != (self.replay is not None):
            raise UsageError(
                f"the algorithm {self.algorithm} "
                + (
                    "needs a replay buffer"
                    if self.replay is None
                    else "learns from fresh rollouts, and replays nothing"
                )
            )
        self.roles.check_envs(self.envs.num_envs)
        if self.replay is not None and isinstance(self.learn, OffPolicyConfig):
            self._check_sizes(self.learn, self.replay)
        if isinstance(self.learn, OffPolicyConfig):
            _check_shares(self.learn.batch_size, self.batch_shares)
        self._check_normalisation()
        if self.network.recurrent:
            check_recurrent(self.algorithm, self.network.recurrent)
            _check_shared(self.learn, self.network.recurrent)
        try:
            strict_json.restored(json.loads(json.dumps(self.env_kwargs)))
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"--env-kwargs is {shown(self.env_kwargs)}, which cannot be written into the run as JSON ({error}): "
                "give numbers, strings, lists and dictionaries, or a callable that makes the environment with the rest"
            ) from None

    def _check_without_replay(self) -> None:
        for name, instead in self.roles.only_with_replay().items():
            if value := getattr(self.roles, name):
                raise UsageError(
                    f"{flag(name)} is {value}, and {self.algorithm} learns from the rollout that was just sampled, not "
                    f"from a replay buffer {instead}"
                )

    def _check_sizes(self, learn: OffPolicyConfig, replay: ReplayConfig) -> None:
        """Raises UsageError where batches, or the steps before or between updates, do not fit to the replay buffer."""
        if learn.learning_starts > replay.buffer_size:
            raise UsageError(
                f"--learning-starts is {learn.learning_starts:,}, and the replay buffer keeps {replay.buffer_size:,} "
                "transitions: take a larger --buffer-size, or start earlier"
            )
        width, num_buffers = self.phase_width, self.num_buffers
        for name, batch in self.batch_sizes.items():
            _check_batch_size(name, batch, learn.learning_starts, replay.buffer_size, width, num_buffers)
        share = math.ceil(replay.buffer_size // num_buffers / width)
        if self.in_phases and learn.steps_per_phase(width) > share:
            raise UsageError(
                f"each of the {width} envs makes {learn.steps_per_phase(width):,} steps between updates, and the "
                f"replay buffer keeps {share:,} of each{_shared_out(num_buffers)}: take a larger --buffer-size, or a "
                "shorter --horizon"
            )

    def _check_normalisation(self) -> None:
        for name, why in self.roles.statistics_refusals.items():
            if why and (getattr(self.network, name, False) or getattr(self.learn, name, False)):
                raise UsageError(
                    f"{flag(name)} is on, and the system {self.system} cannot keep the statistics: {why}; leave it "
                    f"out, or take a recipe that can ({by_actions(recipes_with_setting(name), self.algorithm)})"
                )

    @property
    def sections(self) -> dict[str, Any]:
        """The sections of settings that this configuration has, by name."""
        return {section: part for section in SECTIONS if (part := getattr(self, section)) is not None}

    def section_of(self, name: str) -> str:
        """Returns the section that has the setting of this name, which is one of this configuration."""
        parts = self.sections.items()
        return next(s for s, part in parts if name in {f.name for f in dataclasses.fields(part)})

    def value_of(self, name: str) -> Any:
        """Returns the value of the setting of this name, which is one of this configuration."""
        return getattr(getattr(self, self.section_of(name)), name)

    @property
    def in_phases(self) -> bool:
        """Whether acting and learning alternate in the same process."""
        return self.roles.in_phases

    @property
    def in_one_process(self) -> bool:
        """Whether the run is one sampler-learner in the main process."""
        return self.roles.in_one_process

    @property
    def phase_width(self) -> int:
        """Envs whose steps together make a phase: all, or those of one learner where each has phases of its own."""
        return self.envs.num_envs // (self.roles.learners if self.roles.owns_envs else 1)

    @property
    def num_buffers(self) -> int:
        """Number of replay buffers: more than one where each learner has its own, and samples whole batches from it."""
        return self.roles.learners if self.roles.owns_envs else 1

    @property
    def batch_sizes(self) -> dict[str, int]:
        """Transitions of a batch that is drawn from the replay buffer, by the setting that says so."""
        sizes = {"batch_size": self.learn.batch_size} if isinstance(self.learn, OffPolicyConfig) else {}
        if isinstance(self.roles, SynchronousConfig) and self.roles.second_batch_size:
            sizes["second_batch_size"] = self.roles.second_batch_size
        return sizes

    @property
    def batch_shares(self) -> int:
        """Learners that each batch is divided among."""
        return self.roles.learners if self.roles.is_synchronised else 1

    def replay_of(self, buffers: int) -> ReplayConfig:
        """Returns the settings of each of several replay buffers, which hold the transitions together."""
        assert self.replay is not None
        # New settings check the name of the sampling strategy, which a plug-in may register.
        import_plugins(self.plugins)
        return dataclasses.replace(self.replay, buffer_size=max(1, self.replay.buffer_size // buffers))

    def make_algorithm(self, action: ActionSpec) -> Algorithm:
        """Returns the algorithm for these settings.

        Raises:
            UsageError: it cannot choose such actions.
        """
        import_plugins(self.plugins)
        check_actions(self.algorithm, action)
        cls = ALGORITHMS[self.algorithm].algorithm
        algorithm = cls(self.learn, action)
        algorithm.run_steps, algorithm.name = self.run.steps, self.algorithm
        return algorithm


def _check_shares(batch: int, learners: int) -> None:
    if batch % learners:
        raise UsageError(
            f"--batch-size is {batch:,} and --learners is {learners}: each learner must get as many; take a multiple "
            f"of {learners}"
        )


def _check_shared(learn: AlgorithmConfig, recurrent: str) -> None:
    if isinstance(learn, PolicyGradientConfig) and not learn.shared:
        raise UsageError(
            f"{recurrent}, and policy and value have a torso each, which cannot share a recurrent state: take "
            "--shared, or leave it out"
        )


def _check_batch_size(
    name: str, batch: int, learning_starts: int, buffer_size: int, width: int, num_buffers: int
) -> None:
    """Raises UsageError where the batches, whose size is the setting `name`, are more than the buffer is sure to hold.

    An episode's last observation takes a row, too, so that only half the rows may be transitions.
    """
    each = _shared_out(num_buffers)
    sure = width * (math.ceil(buffer_size // num_buffers / width) // 2)
    if batch > sure:
        raise UsageError(
            f"{flag(name)} is {batch:,}, and a replay buffer for {buffer_size:,} transitions{each} of {width} envs "
            f"holds only {sure:,} for certain when episodes are short: take a larger --buffer-size, or a smaller batch"
        )
    if learning_starts // num_buffers < batch:
        raise UsageError(
            f"{flag(name)} is {batch:,}, and learning starts after {learning_starts:,} steps{each}, when less is "
            "stored: raise --learning-starts, or take a smaller batch"
        )


def _shared_out(num_buffers: int) -> str:
    return f", shared out among {num_buffers} learners" if num_buffers > 1 else ""
