"""One figure for each system, shown on its page and on the pages of its recipes."""

from __future__ import annotations

from collections.abc import Mapping

FIGURES: Mapping[str, str] = {
    "synchronous": """
           +----------------- weights (sample, learn, sample ...) -----------------+
           v                                                                       |
        sampler ==rows==> fresh rollout, or replay buffer ==batches==> learner 0 --+
         |   ^                                                             |
 actions |   | rows        with a GPU in two groups:          gradient, mean   (--learners N: each with
         v   |             one steps while actions                         |    its own envs and sampler)
       envs                of the other are computed             learner 1 ...
""",
    "asynchronous": """
        learner 0 --gradient--> +---------+
        learner 1 --gradient--> | chunk 0 |     learner: envs, sampler, rollout or replay buffer, updates
        ...      <--parameters- | chunk 1 |     store: parameters and the rule's state, a lock for each chunk
                                | chunk 2 |
                                +---------+
""",
    "ga3c": """
           +---- prediction requests ----> predictors --+
           |                                            |
        agents <--------- actions ----------------------+-- model (one network)
           |                                            |
           +------- rollouts ------------> trainers ----+       tuner: how many threads of each
""",
    "gorila": """
bundle 0: envs, replay buffer, learner ==gradient, version==> ring 0 --+
                                                                       +==> parameter shard 0: parameters,
bundle 1: envs, replay buffer, learner ==gradient, version==> ring 1 --+              |        rule's state
   ^                                                                                  |
   +--------------------------- part 0 (newest wins) ---------------------------------+   ... and each other shard

--actors N:
actors ==slots==> replay shards ==rows of batches==> learners ==gradient, version==> parameter shards
   ^                                                    ^                                  |
   +------------------------- parts (newest wins) ------+----------------------------------+
""",
    "apex": """
           +---------------------- weights (newest wins) ------------------------+
           v                                                                     |
        actors ==slots, first priorities==> replay shards ==rows of batches==> learner
           |                                  ^                                  |
           |                                  +--- sample requests, priorities --+
           +--------------- rate limiter (steps due, samples done) --------------+
""",
    "impala": """
           +------- weights -------+                evaluator (with --evaluator-share): plays with the newest
           v                       |                weights; its episodes are the run's score
        actors ==unrolls==> learner (V-trace, and earlier unrolls with --replay-share)
""",
}
