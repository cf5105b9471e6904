"""The line charts of metrics: episode length, losses, values, throughput."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from veldt import formatting
from veldt.report.charts import SERIES_COLOURS, Curve, Series, clipped, line_chart
from veldt.report.data import RunData, on_common_grid, smoothed
from veldt.report.groups import Environment, Group

LENGTH = "rollout/interval_length_mean"
# Title and unit; a loss or policy statistic that is missing here gets a title from its key.
TITLES = {
    LENGTH: ("Episode length", "agent steps, mean of 100"),
    "train/grad_norm": ("Gradient norm", ""),
    "train/gradient_cosine": ("Gradient of half a batch", "cosine with the whole one's"),
    "norms/weights": ("Norm of the weights", ""),
    "norms/gradient": ("Norm of the gradient", ""),
    "norms/step": ("Norm of a step", ""),
    "train/learning_rate": ("Learning rate", ""),
    "time/steps_per_second": ("Throughput", "agent steps per second"),
    "time/updates_per_second": ("Updates", "per second"),
    "train/policy_lag_mean": ("Policy lag", "updates behind"),
    "system/cores": ("Cores in use", "of this machine"),
    "system/memory_bytes": ("Memory", "bytes"),
    "time/rollouts_per_second": ("Training", "rollouts per second"),
    "time/predictions_per_second": ("Prediction", "requests per second"),
    "system/prediction_batch_size": ("Inference", "requests in one"),
    "system/training_batch_size": ("Update", "rollouts in one"),
    "system/prediction_queue_length": ("Prediction queue", "requests that wait"),
    "system/training_queue_length": ("Training queue", "rollouts that wait"),
    "system/predictors": ("Predictors", "threads"),
    "system/trainers": ("Trainers", "threads"),
    "system/agents": ("Agents", "that act"),
    "system/stale_gradient_share": ("Stale gradients", "share discarded by the parameter server"),
    "system/gradient_staleness_mean": ("Staleness", "of gradients, updates"),
    "system/outlier_gradient_share": ("Outliers", "share of gradients discarded by their learner"),
    "system/server_blocked_seconds": ("Waiting for the parameter server", "seconds of a learner so far"),
    "system/store_blocked_seconds": ("Waiting for the central store", "seconds of a learner so far"),
    "system/store_updating_seconds": ("Updating the central store", "seconds of a learner so far"),
    "train/loss": ("Total loss", ""),
    "train/policy_loss": ("Policy loss", ""),
    "train/value_loss": ("Value loss", ""),
    "train/entropy": ("Entropy", "of the policy, nats"),
    "train/approx_kl": ("KL divergence", "from the policy that acted"),
    "train/clip_fraction": ("Clip fraction", "of the ratios"),
    "train/critic_loss": ("Critic's loss", ""),
    "train/actor_loss": ("Actor's loss", ""),
    "train/rho_mean": ("Importance ratio", "ρ, clipped, of the actions taken"),
    "train/rho_clip_fraction": ("Clipped ratios", "share of the steps"),
    "train/value_mean": ("Value estimate V", "of the observations learned from"),
    "train/q_mean": ("Value estimate Q", "of the actions learned from"),
    "train/policy_q_mean": ("Value estimate Q", "of the policy's actions"),
    "train/td_error": ("TD error", "absolute"),
    "train/kl_to_target": ("KL divergence", "of the distribution from its target, nats"),
    "train/outer_atoms_probability": ("Outer atoms", "probability of the targets there"),
    "rollout/epsilon": ("ε", "probability of a random action"),
    "replay/training_intensity": ("Training intensity", "uses of each step"),
    "replay/transitions": ("Replay buffer", "transitions"),
    "replay/unrolls": ("Earlier unrolls", "that can be sampled"),
    "replay/beta": ("β", "of importance weights"),
    "replay/dropped_priorities": ("Priorities too late", "dropped so far"),
    "replay/rewards_outside_atoms": ("Rewards outside the atoms", "so far"),
    "eval/ep_return_mean": ("Evaluation", "raw return of episodes"),
}
# Metrics in the section on learning: names, and prefixes of names.
_LEARNING = (
    "eval/ep_return_mean",
    LENGTH,
    "train/",
    "rollout/epsilon",
    "norms/weights",
    "norms/gradient",
    "norms/step",
    "replay/",
)
# What begins with one of these is shown elsewhere, or no curve.
_NOT_LEARNING = ("train/policy_lag", "train/updates")


@dataclass(frozen=True)
class Axis:
    """An x axis: the metric, how many of its units make one unit of the axis, and the axis label."""

    key: str
    divisor: float
    label: str

    def curve(self, run: RunData, key: str) -> Curve:
        """The metric `key` of `run` over this axis."""
        x, y = run.curve(self.key, key)
        return x / self.divisor, y

    def over_steps(self, run: RunData, curve: Curve) -> Curve:
        """A curve of `run` over agent steps, over this axis."""
        x, y = curve
        return (run.seconds_at(x) if self.key == "seconds" else x) / self.divisor, y


STEPS = Axis("step", 1, "agent steps")


def time_axis(environment: Environment) -> Axis:
    """Seconds; minutes or hours if a run took several."""
    seconds = [run.metric("seconds") for run in environment.runs]
    longest = max((value for value in seconds if value > 0), default=0.0)
    if longest > 5 * 3600:
        return Axis("seconds", 3600, "hours")
    return Axis("seconds", 60, "minutes") if longest > 5 * 60 else Axis("seconds", 1, "seconds")


def learning_section(environment: Environment) -> str:
    """Charts of evaluations, episode length, losses, policy, Q and replay metrics, gradient norm and learning rate."""
    keys = dict.fromkeys(key for run in environment.runs for key in run.metric_names())
    wanted = [
        key
        for name in _LEARNING
        for key in ([key for key in keys if key.startswith(name)] if name.endswith("/") else [name])
        if not key.startswith(_NOT_LEARNING)
    ]
    charts = "".join(small_chart(key, environment, STEPS) for key in wanted)
    return (
        f'<section><h2>Learning</h2>{legend(environment.groups)}<div class="grid">{charts}</div></section>'
        if charts
        else ""
    )


def small_chart(key: str, environment: Environment, axis: Axis) -> str:
    """A `<figure>` of one metric, smoothed, over the raw values; "" if no run has a value of it."""
    groups = environment.groups
    series = [_series(colour, group, axis, key, len(groups) == 1) for colour, group in enumerate(groups)]
    if all(one.is_empty() for one in series):
        return ""
    title, unit = TITLES.get(
        key, (key.partition("/")[2].replace("_", " ").capitalize(), key.partition("/")[0])
    )
    identifier = f"{environment.prefix}{key.replace('/', '-').replace('_', '-')}-{axis.key}"
    chart = line_chart(series, axis.label, 344, 190, identifier)
    spike = clipped(series)
    note = (
        ""
        if spike is None
        else f"<p>Spikes beyond the axis, as far as {formatting.decimal(spike)}, are cut off.</p>"
    )
    small = f"<small>{escape(unit)}</small>" if unit else ""
    return f"<figure><h3>{escape(title)}{small}</h3>{chart}{note}</figure>"


def legend(groups: list[Group]) -> str:
    """The names and colours of the groups; "" for a single group."""
    if len(groups) < 2:
        return ""
    items = (
        f'<li><i style="background:var(--series-{colour % SERIES_COLOURS})"></i>{escape(group.label)}</li>'
        for colour, group in enumerate(groups)
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _series(colour: int, group: Group, axis: Axis, key: str, alone: bool) -> Series:
    if key == LENGTH:
        # From the log of episodes, as the returns are: a mean of 100 needs no smoothing.
        raw = curves = [axis.over_steps(run, run.mean_lengths()) for run in group.runs]
    else:
        raw = [axis.curve(run, key) for run in group.runs]
        curves = [(x, smoothed(y)) for x, y in raw]
    if len(curves) == 1:
        # Raw values of several groups would hide the curves.
        return Series(colour, curves[0], raw if alone else ())
    x, values = on_common_grid(curves)
    return Series(colour, (x, values.mean(axis=0)), curves)
