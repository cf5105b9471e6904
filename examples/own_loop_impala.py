"""IMPALA (Espeholt et al. 2018) in a loop of one's own: actors add whole episodes, a learner corrects by V-trace.

`python examples/own_loop_impala.py` runs on this machine, `python examples/own_loop_impala.py local` the same on Ray.
"""

import sys
from typing import Any

import gymnasium as gym
import torch
from torch import nn

import veldt

VECTOR, NUMBER = ((4,), "float32"), ((), "float32")
STEP = {"seen": VECTOR, "action": ((), "int64"), "log_prob": NUMBER, "next": VECTOR, "goes_on": NUMBER}


def actor_critic() -> nn.ModuleDict:
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2), nn.LogSoftmax(-1))
    value = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1), nn.Flatten(-2))
    return nn.ModuleDict({"policy": policy, "value": value})


def act(process: veldt.RoleProcess, weights: Any, replay: Any, solved: float, episodes: int) -> None:
    """Adds whole episodes, each played with the newest weights. (Rewards are 1.)"""
    torch.manual_seed(process.index)
    env, network, scores = gym.make("CartPole-v1"), actor_critic(), []
    while process.running and len(scores) < episodes:
        weights.pull(network)
        steps, seen, done = [], env.reset(seed=None if scores else process.index)[0], False
        while not done:
            with torch.no_grad():
                log_probs = network["policy"](torch.from_numpy(seen))
            action = int(torch.multinomial(log_probs.exp(), 1))
            following, _, terminated, truncated, _ = env.step(action)
            steps.append((seen, action, float(log_probs[action]), following, float(not terminated)))
            seen, done = following, terminated or truncated
        replay.add(**dict(zip(STEP, zip(*steps, strict=True), strict=True)))
        scores.append(len(steps))
        if len(scores) >= 100 and sum(scores[-100:]) >= 100 * solved:
            process.stop_all(f"the mean return of 100 episodes is {sum(scores[-100:]) / 100:.1f}")
    process.stop_all("an actor has played all its episodes")


def learn(process: veldt.RoleProcess, weights: Any, replay: Any) -> int:
    """V-trace (section 4.1, both thresholds 1) on episodes [N, T]. Returns the number of updates."""
    network = actor_critic()
    optimiser, version = torch.optim.Adam(network.parameters(), lr=3e-3), weights.publish(network)
    while (batch := replay.sample()) is not None:
        value, log_probs = network["value"](batch["seen"]), network["policy"](batch["seen"])
        taken = log_probs.gather(-1, batch["action"][..., None])[..., 0]
        with torch.no_grad():
            rho = (taken - batch["log_prob"]).exp().clamp(max=1.0) * batch.mask
            following = network["value"](batch["next"]) * batch["goes_on"]
            excess, excesses = torch.zeros(len(value)), []  # of targets over values, from the end on
            for t in reversed(range(value.shape[1])):
                excess = rho[:, t] * (1.0 + 0.99 * (following[:, t] + excess) - value[:, t])
                excesses.append(excess)
            advantage = torch.stack(excesses[::-1], 1)
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        loss = -taken * advantage + 0.5 * (value.detach() + advantage - value).square() - 0.01 * entropy
        optimiser.zero_grad()
        loss[batch.mask].mean().backward()
        nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        optimiser.step()
        version = weights.publish(network)
    return version


def main(cluster: str | None = None, solved: float = 475.0, episodes: int = 5_000) -> veldt.Finished:
    actors = veldt.Processes(act, count=2, kwargs={"solved": solved, "episodes": episodes})
    roles = {"actor": actors, "learner": veldt.Processes(learn)}
    weights = veldt.ModelServer(actor_critic, "learner")
    replay = veldt.DistributedBuffer(STEP, "actor", "learner", 32, 8, episode_steps=500, training_intensity=4)
    return veldt.run_roles(roles, {"weights": weights, "replay": replay}, cluster=cluster)


if __name__ == "__main__":
    print(main(*sys.argv[1:2]))
