"""All experiments, by name."""

from __future__ import annotations

from collections.abc import Mapping

from veldt.experiments.catalogue import (
    apex,
    batches,
    ga3c,
    gorila,
    minatar,
    policy_gradient,
    precision,
    sampling,
    scores,
    secondary,
    throughput,
)
from veldt.experiments.experiment import Experiment

EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        sampling.SAMPLING,
        throughput.THROUGHPUT,
        scores.SCORES,
        policy_gradient.SIMULATORS,
        batches.BATCHES,
        policy_gradient.MINUTES,
        secondary.SECONDARY_LEARNER,
        batches.NORMS,
        policy_gradient.SATURATION,
        apex.REPLICAS,
        apex.EPSILONS,
        gorila.GORILA_SCALING,
        ga3c.GA3C_NETWORK,
        ga3c.GA3C_TUNER,
        precision.PRECISION,
        minatar.MINATAR,
    )
}
