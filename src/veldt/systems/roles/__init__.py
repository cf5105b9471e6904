"""Roles that several systems share: actor, learner, replay shard, evaluator, sampler-learner."""
