"""The metrics of processes, servers and queues (`system/`), a part of the dictionary of metrics."""

from __future__ import annotations

from veldt.tracking.metric import Metric

_GORILA = "`gorila`"
_GA3C = "`ga3c`"
_ASYNCHRONOUS = "`asynchronous`"

SYSTEM = (
    Metric(
        "system/env_restarts",
        "restarts",
        "Envs that were restarted since the start of the run because they raised, hung or died. Each is also a "
        "line in `events.jsonl`, with its reason.",
    ),
    Metric(
        "system/role_restarts",
        "restarts",
        "Processes that were restarted since the start of the run. Each is also a line in `events.jsonl`, with "
        "its reason.",
    ),
    Metric(
        "system/cores",
        "cores",
        "Cores that the processes of the run used, mean over the interval. As the next, of this machine only, and "
        "measured at most once a second: rows in between repeat it.",
    ),
    Metric(
        "system/memory_bytes",
        "bytes",
        "Memory of these processes. Libraries and shared blocks count once, by the process that has the most of them; "
        "pages that a forked process still shares with its parent count only in the parent.",
    ),
    Metric(
        "system/prediction_queue_length",
        "requests",
        "Requests that were waiting when a predictor took some; mean over inferences.",
        _GA3C,
    ),
    Metric(
        "system/training_queue_length",
        "rollouts",
        "Rollouts that were waiting when a trainer was free; mean over the batches that trainers took.",
        _GA3C,
    ),
    Metric(
        "system/prediction_batch_size",
        "requests",
        "Requests answered by one inference; mean over inferences.",
        _GA3C,
    ),
    Metric(
        "system/training_batch_size",
        "rollouts",
        "Rollouts learned from at once; mean over updates (for PPO: over the batches that its epochs repeat).",
        _GA3C,
    ),
    Metric(
        "system/predictors",
        "threads",
        "Active predictor threads in the interval that the tuner measures now. Its decisions are lines of "
        "`events.jsonl`, with the rates that it has measured with the new setting and with the previous one.",
        _GA3C,
    ),
    Metric("system/trainers", "threads", "The same of trainer threads.", _GA3C),
    Metric(
        "system/agents", "agents", "Agents that act; less than `--num-envs` only with `--tune-agents`.", _GA3C
    ),
    Metric(
        "system/stale_gradient_share",
        "0..1",
        "Share of the gradients that the parameter server discarded because they were more than `--max-staleness` "
        "updates old. Of the last 200 or more (each shard counts its parts), from the counts that are sent with "
        "the parameters; absent before. A note with the rate is printed when it is above ½ for long.",
        _GORILA,
    ),
    Metric(
        "system/stale_gradients",
        "parts",
        "Number of these since the start of the run, over all shards.",
        _GORILA,
    ),
    Metric(
        "system/gradient_staleness_mean",
        "updates",
        "Updates of a shard since the parameters that a gradient was computed with. Mean over all gradients that "
        "arrived since the start of the run, including the discarded. About the number of learners, if each sends "
        "one gradient after another.",
        _GORILA,
    ),
    Metric(
        "system/outlier_gradient_share",
        "0..1",
        "Share of its gradients that a learner discarded because their loss was more than `--outlier-deviations` "
        "standard deviations above the mean of its losses. Of its last 200 or more (absent before); mean over "
        "learners. A note as above.",
        _GORILA,
    ),
    Metric(
        "system/outlier_gradients",
        "gradients",
        "Number of these since the run was (last) started, over all learners.",
        _GORILA,
    ),
    Metric(
        "system/server_blocked_seconds",
        "s",
        "Time in which a learner waited with a gradient because a shard had no room, since its process started; "
        "mean over learners.",
        _GORILA,
    ),
    Metric(
        "system/store_blocked_seconds",
        "s",
        "Time in which a learner waited for a chunk of the central store, since it started; mean over learners.",
        _ASYNCHRONOUS,
    ),
    Metric(
        "system/store_updating_seconds",
        "s",
        "Time in which a learner held a chunk to update it (or to copy it, for a checkpoint); as above.",
        _ASYNCHRONOUS,
    ),
)
