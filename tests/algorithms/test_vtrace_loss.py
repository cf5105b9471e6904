"""V-trace's loss on rollouts of another policy, against sums made one env at a time."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rollouts import ACTION, ACTIONS, EVENTS, NumberedRows, Table, eventful, make, spoilt
from torch import Tensor

from veldt.algorithms.base import Loss
from veldt.algorithms.rollout import Rollout
from veldt.algorithms.vtrace import VTrace, VTraceConfig
from veldt.functional.updates import Adam, RMSProp

DISCOUNT = 0.9


def algorithm(**settings: float | bool) -> VTrace:
    given: dict[str, float | bool] = {"gamma": DISCOUNT, "clip_rewards": False, **settings}
    return VTrace(VTraceConfig(**given), ACTION)  # type: ignore[arg-type]


def learned(own: VTrace, network: Table, rollout: Rollout) -> Loss:
    """The loss of the one batch of a phase."""
    (batch,) = own.minibatches(network, rollout, torch.Generator())
    return own.loss(network, batch, 0.0)


def log_softmax(logits: Tensor) -> np.ndarray:
    return logits.double().log_softmax(-1).numpy()


def naive(rollout: Rollout, table: Table, own: VTrace) -> dict[str, np.ndarray]:
    """Everything of the valid rows in double precision, in the order of rows."""
    config, (steps, width) = own._config, rollout.reward.shape
    value = table.value.double().numpy().reshape(steps + 1, width)
    policy = log_softmax(table.policy).reshape(steps + 1, width, -1)
    acted = log_softmax(rollout.extras["policy"])
    reward = rollout.reward.double().numpy()
    reward = reward.clip(-1, 1) if config.clip_rewards else reward
    lost = rollout.life_lost.numpy() & config.terminal_on_life_loss
    terminal = rollout.terminated.numpy() | lost
    ended = terminal | rollout.truncated.numpy() | rollout.interrupted.numpy()
    action = rollout.action.numpy()
    found: dict[str, list[float]] = {
        name: [] for name in ("ratio", "log_prob", "entropy", "value", "target", "advantage")
    }

    def ratio(t: int, b: int) -> float:
        return float(np.exp(policy[t, b, action[t, b]] - acted[t, b, action[t, b]]))

    def error(t: int, b: int, following: float) -> float:
        return reward[t, b] + (0.0 if terminal[t, b] else config.gamma * following) - value[t, b]

    def target(s: int, b: int) -> float:
        total, weight = value[s, b], 1.0
        for t in range(s, steps):
            total += weight * min(config.rho_bar, ratio(t, b)) * error(t, b, value[t + 1, b])
            if ended[t, b]:
                break
            weight *= config.gamma * config.gae_lambda * min(config.c_bar, ratio(t, b))
        return float(total)

    for t, b in np.argwhere(rollout.valid.numpy()):
        last = t + 1 == steps or ended[t, b]
        following = value[t + 1, b]
        if not last:
            following += config.gae_lambda * (target(t + 1, b) - following)
        found["ratio"].append(ratio(t, b))
        found["log_prob"].append(policy[t, b, action[t, b]])
        found["entropy"].append(-(np.exp(policy[t, b]) * policy[t, b]).sum())
        found["value"].append(value[t, b])
        found["target"].append(target(t, b))
        found["advantage"].append(min(config.rho_bar, ratio(t, b)) * error(t, b, following))
    return {name: np.array(values) for name, values in found.items()}


@given(
    events=st.integers(1, 3).flatmap(
        lambda width: st.lists(
            st.lists(st.sampled_from(EVENTS), min_size=width, max_size=width), min_size=1, max_size=10
        )
    ),
    rho_bar=st.sampled_from([0.7, 1.0, 3.0]),
    c_bar=st.sampled_from([0.7, 1.0, 3.0]),
    gae_lambda=st.sampled_from([0.8, 1.0]),
    clip_rewards=st.booleans(),
    terminal_on_life_loss=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=150, deadline=None)
def test_equal_to_the_naive_sums(events: list[list[str]], seed: int, **values: float | bool) -> None:
    rng = np.random.default_rng(seed)
    rollout, table = make(events, rng)
    own = algorithm(ent_coef=0.03, vf_coef=0.4, **values)
    later = table.moved(rng, 0.5)
    loss, metrics, *_ = learned(own, later, rollout)
    n = naive(rollout, later, own)
    policy, value = np.mean(-n["log_prob"] * n["advantage"]), np.mean((n["value"] - n["target"]) ** 2)
    assert float(metrics["train/policy_loss"]) == pytest.approx(policy, rel=1e-3, abs=1e-4)
    assert float(metrics["train/value_loss"]) == pytest.approx(value, rel=1e-3, abs=1e-4)
    assert float(metrics["train/entropy"]) == pytest.approx(np.mean(n["entropy"]), rel=1e-4)
    assert float(metrics["train/value_mean"]) == pytest.approx(np.mean(n["value"]), rel=1e-4)
    assert float(loss) == pytest.approx(
        policy + 0.4 * value - 0.03 * np.mean(n["entropy"]), rel=1e-3, abs=1e-4
    )
    rho_bar = own._config.rho_bar
    assert float(metrics["train/rho_mean"]) == pytest.approx(np.minimum(n["ratio"], rho_bar).mean(), rel=1e-4)
    assert float(metrics["train/rho_clip_fraction"]) == pytest.approx(np.mean(n["ratio"] > 1.01 * rho_bar))


def test_no_gradient_reaches_a_target() -> None:
    """The gradient is the paper's, row by row: (v - V) of values, ρ (r + γ v' - V) of log-probabilities."""
    rng = np.random.default_rng(0)
    rollout, table = eventful(rng)
    own = algorithm(ent_coef=0.0, vf_coef=0.4)
    later = table.moved(rng, 0.3).learning()
    learned(own, later, rollout).total.backward()
    fixed = Table(later.policy.detach(), later.value.detach())
    n, valid = naive(rollout, fixed, own), rollout.valid.flatten()
    width, count = rollout.valid.shape[1], len(n["value"])
    assert later.value.grad is not None and later.policy.grad is not None
    value_gradient, policy_gradient = later.value.grad[:-width], later.policy.grad[:-width]
    np.testing.assert_allclose(
        value_gradient[valid], 0.4 * 2 * (n["value"] - n["target"]) / count, rtol=1e-3, atol=1e-6
    )
    chosen = torch.nn.functional.one_hot(rollout.action.flatten(), ACTIONS).numpy()
    towards = chosen - np.exp(log_softmax(fixed.policy[:-width]))
    np.testing.assert_allclose(
        policy_gradient[valid],
        -towards[valid] * n["advantage"][:, None] / count,
        rtol=1e-3,
        atol=1e-6,
    )
    assert not later.value.grad[-width:].any() and not later.policy.grad[-width:].any()


@pytest.mark.parametrize("seed", range(3))
def test_reset_steps_have_no_part_in_loss_and_gradient(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rollout, table = eventful(rng)
    later = table.moved(rng, 0.1)
    results = []
    unknown = torch.where(rollout.valid[..., None], rollout.extras["policy"], torch.nan)
    other = dataclasses.replace(spoilt(rollout), extras={"policy": unknown})
    for each in (rollout, other):
        network = later.learning()
        loss, metrics, *_ = learned(algorithm(), network, each)
        loss.backward()
        assert network.policy.grad is not None and network.value.grad is not None
        results.append([loss.detach(), *metrics.values(), network.policy.grad, network.value.grad])
    clean, dirty = results
    assert all(torch.equal(one, other) for one, other in zip(clean, dirty, strict=True))
    is_reset_step = ~rollout.valid.flatten()
    assert not dirty[-1][: len(is_reset_step)][is_reset_step].any()
    assert not dirty[-2][: len(is_reset_step)][is_reset_step].any()


def test_a_rollout_of_reset_steps_teaches_nothing() -> None:
    rollout, table = eventful(np.random.default_rng(0))
    rollout.valid[:] = False
    network = table.learning()
    loss, *_ = learned(algorithm(), network, rollout)
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert network.policy.grad is not None and not network.policy.grad.any()


def test_the_metrics_show_lag() -> None:
    rng = np.random.default_rng(0)
    rollout, table = eventful(rng)
    now, later = (learned(algorithm(), table.moved(rng, by), rollout).metrics for by in (0.0, 1.0))
    assert float(now["train/rho_mean"]) == pytest.approx(1.0)
    assert float(now["train/rho_clip_fraction"]) == 0.0
    assert float(later["train/rho_mean"]) < 0.9
    assert 0.1 < float(later["train/rho_clip_fraction"]) < 0.9


class SideBySide:
    """The observations of several actors' unrolls as those of one."""

    def __init__(self, parts: list[NumberedRows], steps: int, offset: int) -> None:
        self._parts, self._steps, self._offset = parts, steps, offset

    def rows(self, index_N: Tensor | None) -> Tensor:
        assert index_N is None
        parts = [part.rows(None).view(self._steps, -1) for part in self._parts]
        return torch.cat([part + i * self._offset for i, part in enumerate(parts)], 1).flatten()

    def last(self) -> Tensor:
        return torch.cat([part.last() + i * self._offset for i, part in enumerate(self._parts)])


def test_unrolls_of_several_actors_side_by_side() -> None:
    """A batch is the mean over all their steps, each corrected for the policy that took it."""
    rng, own = np.random.default_rng(0), algorithm()
    pairs = [eventful(rng, 7, width) for width in (2, 3)]
    later = [table.moved(rng, 0.2) for _, table in pairs]
    separate = [learned(own, table, rollout) for table, (rollout, _) in zip(later, pairs, strict=True)]
    counts = [int(rollout.valid.sum()) for rollout, _ in pairs]
    joined = {
        name: torch.cat([getattr(rollout, name) for rollout, _ in pairs], 1)
        for name in ("action", "reward", "terminated", "truncated", "life_lost", "interrupted", "valid")
    }
    offset = 100
    network = Table(torch.zeros(200, ACTIONS), torch.zeros(200))
    for i, table in enumerate(later):
        network.policy[i * offset : i * offset + len(table.policy)] = table.policy
        network.value[i * offset : i * offset + len(table.value)] = table.value
    observations = [rollout.observations for rollout, _ in pairs]
    assert all(isinstance(part, NumberedRows) for part in observations)
    batch = Rollout(
        observations=SideBySide(observations, 7, offset),  # type: ignore[arg-type]
        extras={"policy": torch.cat([rollout.extras["policy"] for rollout, _ in pairs], 1)},
        **joined,
    )
    together = own.loss(network, batch, 0.0)
    for name, figure in together.metrics.items():
        mean = np.average([float(loss.metrics[name]) for loss in separate], weights=counts)
        assert float(figure) == pytest.approx(mean, rel=1e-4), name


def test_values_computed_while_acting_are_not_used() -> None:
    """Those values are of other parameters than the learner's."""
    rollout, table = eventful(np.random.default_rng(0))
    other = dataclasses.replace(rollout, extras={"policy": rollout.extras["policy"]})
    assert torch.equal(learned(algorithm(), table, rollout).total, learned(algorithm(), table, other).total)


def test_settings_of_the_update_rules_reach_them() -> None:
    own = VTrace(VTraceConfig(max_grad_norm=7.0), ACTION)
    assert own.rule == RMSProp(decay=0.99, epsilon=2.4e-8, epsilon_inside=True, initial=2.4e-6)
    assert own.max_grad_norm == 7.0
    assert VTrace(VTraceConfig(optimiser="adam", adam_epsilon=1e-3), ACTION).rule == Adam(0.9, 0.999, 1e-3)


def test_the_step_falls_to_zero_and_sizes_are_the_horizons() -> None:
    own = VTrace(VTraceConfig(learning_rate=6e-4, horizon=20), ACTION)
    assert [own.learning_rate(progress, 640) for progress in (0.0, 0.5)] == pytest.approx([6e-4, 3e-4])
    assert (own.horizon(1), own.horizon(32), own.update_rows(32)) == (20, 20, 640)
