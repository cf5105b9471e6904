"""The dictionary of metrics: name, unit, meaning and emitter of every metric that veldt logs.

docs/metrics.md is generated from it. A name is `prefix/what`; the prefix says what the metric is about. The coordinates
of a row, `step`, `frames` and `seconds`, have no prefix.
"""

from __future__ import annotations

from collections.abc import Mapping

from veldt.tracking.diagnostic_metrics import DIAGNOSTICS
from veldt.tracking.metric import EVERY, Metric
from veldt.tracking.system_metrics import SYSTEM

_REPLAY = "runs with a replay buffer"
_SEPARATE = "runs whose actors and learners are separate processes"
_WEIGHTED = "runs whose `--replay` is not uniform"
_PRIORITISED = "runs with prioritised replay, or a strategy of one's own that uses priorities"
_GA3C = "`ga3c`"
_POLICY_GRADIENT = "`a2c`, `ppo`, `vtrace`"
_PAIR = "runs with `--second-batch-size`"
_EVALUATE = "runs with `--evaluate-every`"


def with_prefix(name: str) -> str:
    """Returns the name under which a metric of an algorithm is logged: under `train/`, unless it has a prefix."""
    return name if "/" in name else f"train/{name}"


def _stage(stage: str, what: str, emitter: str = EVERY) -> Metric:
    return Metric(f"time/{stage}_seconds", "s", f"Time in this interval {what}", emitter)


def _actors(stage: str, what: str) -> Metric:
    return Metric(f"time/actor_{stage}_share", "0..1", f"Share of the actors' time {what}", _SEPARATE)


_COORDINATES = (
    Metric(
        "step",
        "agent steps",
        "Steps taken since the start of the run, in all envs together; counted when a step's result arrives. "
        "Reset steps are not counted. Continues over resumes.",
    ),
    Metric("frames", "frames", "Frames simulated for these steps: `step` × frame skip."),
    Metric(
        "seconds",
        "s",
        "Wall time of the run, from the moment when it begins to start its envs and processes: imports and the "
        "measuring for `auto` come before. Continues over resumes, without the time between a stop and a resume.",
    ),
)

_TIME = (
    Metric(
        "time/steps_per_second",
        "agent steps / s",
        "Steps since the previous row ÷ wall seconds since the previous row, without evaluations.",
    ),
    Metric("time/frames_per_second", "frames / s", "The same in frames: × frame skip."),
    Metric(
        "time/updates_per_second", "updates / s", "The same in updates; not in a resumed run's first row."
    ),
    _stage(
        "simulate",
        "for stepping envs and preprocessing their outputs, or for waiting for the worker processes that do it. In "
        "the process that limits the speed, the sampler's: work of env processes during its inference is not in it.",
    ),
    _stage("infer", "for choosing actions; on a GPU until the actions are back."),
    _stage(
        "replay",
        "for the replay buffer: adding steps, sampling and assembling batches, updating priorities.",
    ),
    _stage("train", "for gradients and the optimiser."),
    _stage(
        "evaluate",
        "in which training paused for an evaluation. Included in `seconds`, but not in the time that "
        "`time/steps_per_second` divides by.",
    ),
    _stage(
        "wait",
        "that no other stage accounts for: checkpoints, logging, resets in the optimisation pause (`--resets "
        "wait`), moving data.",
    ),
    _actors(
        "simulate", "for their envs. As all of these: wall time of all actors together, since each started."
    ),
    _actors("infer", "for their network and first priorities; with `ga3c` for waiting for answers."),
    _actors("replay", "for sending steps."),
    _actors("wait", "for waiting; with `ga3c` for room in the training queue."),
    Metric(
        "time/rollouts_per_second",
        "rollouts / s",
        "Rollouts, of `--horizon` steps of one agent each, that trainers took from the training queue. With "
        "`--no-group-rollouts` each is an update, and `time/updates_per_second` beside it is GA3C's TPS; otherwise an "
        "update takes several, `system/training_batch_size`. The tuner maximises the former rate there, this one here. "
        "Over the last `--log-every` seconds before the model's newest message, as are all metrics of `ga3c`'s queues.",
        _GA3C,
    ),
    Metric(
        "time/predictions_per_second",
        "requests / s",
        "Agents' requests that were answered (GA3C's PPS). In balance about `time/rollouts_per_second` × "
        "`--horizon`; reset steps cause requests, too.",
        _GA3C,
    ),
)

_ROLLOUT = (
    Metric(
        "rollout/ep_return_mean",
        "reward",
        "Mean return of the last 100 finished episodes (of all, while there are fewer), in the order in which "
        "they finished; absent until the first has finished. A return is the sum of raw rewards of a whole episode: "
        "not clipped, not discounted, not normalised. `--until` refers to this mean, once it is of 100 episodes.",
    ),
    Metric(
        "rollout/interval_return_mean",
        "reward",
        "Mean return of the episodes that finished in this interval; absent if none did.",
    ),
    Metric(
        "rollout/interval_length_mean",
        "agent steps",
        "Mean length of the episodes that finished in this interval; absent if none did.",
    ),
    Metric(
        "rollout/episodes",
        "episodes",
        "Episodes finished since the start of the run. Continues over resumes.",
    ),
    Metric(
        "rollout/reset_steps",
        "steps",
        "Steps that only reset an env, since the start of the run; they are masked out of every loss, return and "
        "count.",
    ),
    Metric(
        "rollout/epsilon",
        "probability",
        "Probability of a random action in training. Absent where every env has its own.",
        "`dqn`, `c51`, `rainbow` with annealed ε",
    ),
)

_TRAIN = (
    Metric(
        "train/updates", "updates", "Optimiser steps since the start of the run; with `gorila` the server's."
    ),
    Metric("train/learning_rate", "", "Learning rate of the last update."),
    Metric(
        "train/loss",
        "",
        "The loss that the optimiser minimises. Mean over the updates of the interval, as are all losses and "
        "gradient norms.",
    ),
    Metric("train/policy_loss", "", "The policy loss, before its weight.", _POLICY_GRADIENT),
    Metric("train/value_loss", "", "The value loss, before its weight (`--vf-coef`).", _POLICY_GRADIENT),
    Metric("train/critic_loss", "", "The critic's loss.", "`ddpg`"),
    Metric("train/actor_loss", "", "The actor's loss.", "`ddpg`"),
    Metric(
        "train/entropy",
        "nats",
        "Mean entropy of the action distribution over the valid steps of the interval's batches; for a density, "
        "the differential entropy, which may be negative.",
        _POLICY_GRADIENT,
    ),
    Metric(
        "train/value_mean",
        "return",
        "Mean V of the observations learned from. It estimates discounted returns, of clipped or normalised rewards "
        "where rewards are.",
        _POLICY_GRADIENT,
    ),
    Metric(
        "train/approx_kl",
        "nats",
        "Estimate of KL(acted ‖ updated), from the policy that acted to the updated one, from the stored "
        "log-probabilities of the actions.",
        "`ppo`",
    ),
    Metric(
        "train/clip_fraction",
        "0..1",
        "Share of the steps of the interval's batches whose probability ratio lay outside PPO's clipping range.",
        "`ppo`",
    ),
    Metric(
        "train/rho_mean",
        "ratio",
        "Mean of V-trace's ρ over the steps of the interval's batches: the probability ratio π/μ of the learning "
        "policy to the acting policy for the actions taken, clipped at ρ̄. 1 where the acting policy is the "
        "learning one (and ρ̄ is 1); the older the acting policy, the smaller.",
        "`vtrace`",
    ),
    Metric(
        "train/rho_clip_fraction",
        "0..1",
        "Share of the steps whose ratio was above ρ̄, by more than the 1% that rounding may cause.",
        "`vtrace`",
    ),
    Metric(
        "train/q_mean", "return", "Mean Q of the actions learned from.", "`dqn`, `c51`, `rainbow`, `ddpg`"
    ),
    Metric("train/policy_q_mean", "return", "Mean Q of the policy's own actions.", "`ddpg`"),
    Metric("train/td_error", "return", "Mean absolute TD error.", "`dqn`"),
    Metric(
        "train/kl_to_target",
        "nats",
        "Mean KL(target ‖ learned) of the return distributions; the priority of categorical algorithms.",
        "`c51`, `rainbow`",
    ),
    Metric(
        "train/outer_atoms_probability",
        "0..1",
        "Mean probability of the targets' first and last atoms, where returns beyond the bounds end.",
        "`c51`, `rainbow`",
    ),
    Metric("train/grad_norm", "", "L2 norm of the whole gradient before clipping."),
    Metric(
        "train/policy_lag_mean",
        "updates",
        "Age of the policy that chose the actions now learned from: updates between the parameters that chose an "
        "action and the parameters that are updated with it. Mean over the rows learned from in this interval, "
        "from the versions stored with them. One update per rollout gives 0; PPO's several updates give about "
        "half their number; with a replay buffer it is large.",
    ),
    Metric(
        "train/policy_lag_min",
        "updates",
        "Minimum of the policy lag over all rows learned from in this interval; with sampler-learners over the "
        "means of updates.",
    ),
    Metric("train/policy_lag_max", "updates", "Maximum of the same."),
)

_REPLAY_METRICS = (
    Metric(
        "replay/training_intensity",
        "uses",
        "How often each step has been used in updates, on average, since learning (last) started: updates × batch "
        "÷ steps since then; with `gorila` this includes updates whose gradients the server discarded.",
        _REPLAY,
    ),
    Metric("replay/transitions", "transitions", "Transitions that can be sampled now.", _REPLAY),
    Metric("replay/beta", "", "Exponent of the importance weights; linear over the run.", _WEIGHTED),
    Metric(
        "replay/dropped_priorities",
        "priorities",
        "New priorities that arrived after their transition had been overwritten, since the start of the run.",
        _PRIORITISED,
    ),
    Metric(
        "replay/rewards_outside_atoms",
        "rewards",
        "Rewards (after clipping, if on) outside the range that a categorical network can represent, since the "
        "start of the run.",
        "`c51`, `rainbow`, with a replay buffer in the learner",
    ),
    Metric(
        "replay/unrolls",
        "unrolls",
        "Earlier unrolls that can be sampled now.",
        "`impala` with `--replay-share`",
    ),
)

_EVAL = (
    Metric(
        "eval/ep_return_mean",
        "reward",
        "Mean raw return of whole episodes, played without learning from them: those that one env would have played "
        "within `--evaluate-steps`. As all of these, in the first row after an evaluation; where an evaluator process "
        "plays, the policy is that of the step at which it began (in `events.jsonl`).",
        _EVALUATE,
    ),
    Metric("eval/ep_return_std", "reward", "Standard deviation of these returns.", _EVALUATE),
    Metric("eval/ep_length_mean", "agent steps", "Mean length of these episodes.", _EVALUATE),
    Metric("eval/episodes", "episodes", "Number of these episodes.", _EVALUATE),
)

_SECOND = (
    Metric(
        "second/ep_return_mean",
        "reward",
        "`eval/ep_return_mean` of the second learner's policy, evaluated at the same step.",
        f"{_PAIR} and `--evaluate-every`",
    ),
    Metric("second/weights_norm", "", "L2 norm of all parameters of the second learner.", _PAIR),
    Metric("second/first_weights_norm", "", "The same of the first one, which acts.", _PAIR),
    Metric("second/distance", "", "L2 norm of the difference of their parameters.", _PAIR),
)

METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        *_COORDINATES,
        *_TIME,
        *_ROLLOUT,
        *_TRAIN,
        *DIAGNOSTICS,
        *_REPLAY_METRICS,
        *_EVAL,
        *_SECOND,
        *SYSTEM,
    )
}
