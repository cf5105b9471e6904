"""Ape-X DQN (Horgan et al. 2018) in a loop of one's own: actors add transitions, a learner samples by priority.

`python examples/own_loop_apex.py` runs on this machine, `python examples/own_loop_apex.py local` the same on Ray.
"""

import sys
from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import veldt

VECTOR, NUMBER = ((4,), "float32"), ((), "float32")
ROW = {"seen": VECTOR, "action": ((), "int64"), "reward": NUMBER, "next": VECTOR, "terminated": ((), "bool")}


def q_network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))


def act(process: veldt.RoleProcess, weights: Any, replay: Any, solved: float, episodes: int) -> None:
    """Plays with the newest weights; the last actor explores least, and decides when it is solved."""
    env, network, scores = gym.make("CartPole-v1"), q_network(), deque[float](maxlen=100)
    epsilon = 0.3 ** (1 + 3 * process.index)
    rng, seen, score = np.random.default_rng(process.index), env.reset(seed=process.index)[0], 0.0
    while process.running and episodes:
        weights.pull(network)
        with torch.no_grad():
            best = int(network(torch.from_numpy(seen)).argmax())
        action = int(rng.integers(2)) if rng.random() < epsilon else best
        following, reward, terminated, truncated, _ = env.step(action)
        replay.add(seen=seen, action=action, reward=reward, next=following, terminated=terminated)
        seen, score = following, score + float(reward)
        if terminated or truncated:
            scores.append(score)
            seen, score, episodes = env.reset()[0], 0.0, episodes - 1
            if process.index == process.count - 1 and len(scores) == 100 and np.mean(scores) >= solved:
                process.stop_all(f"the mean return of 100 episodes is {np.mean(scores):.1f}")
    process.stop_all("an actor has played all its episodes")


def learn(process: veldt.RoleProcess, weights: Any, replay: Any) -> dict[str, Any]:
    """Double DQN on batches that are drawn by priority."""
    network = q_network()
    target = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(0.99))  # follows the network slowly
    optimiser = torch.optim.Adam(network.parameters(), lr=5e-4)
    weights.publish(network)
    while (batch := replay.sample(beta=0.4)) is not None:
        with torch.no_grad():
            best = network(batch["next"]).argmax(-1, keepdim=True)
            following = target(batch["next"]).gather(-1, best)[:, 0]
            wanted = batch["reward"] + 0.98 * ~batch["terminated"] * following
        error = wanted - network(batch["seen"]).gather(-1, batch["action"][:, None])[:, 0]
        optimiser.zero_grad()
        (batch.weight * nn.functional.huber_loss(error, 0 * error, reduction="none")).mean().backward()
        optimiser.step()
        replay.update(error.abs())
        target.update_parameters(network)
        if target.n_averaged % 10 == 0:  # the number of updates
            weights.publish(network)
    return {"updates": int(target.n_averaged), "network": network.state_dict()}


def main(cluster: str | None = None, solved: float = 195.0, episodes: int = 5_000) -> veldt.Finished:
    actors = veldt.Processes(act, count=2, kwargs={"solved": solved, "episodes": episodes})
    roles = {"actor": actors, "learner": veldt.Processes(learn)}
    weights = veldt.ModelServer(q_network, "learner")
    replay = veldt.DistributedBuffer(
        ROW, "actor", "learner", 50_000, 64, alpha=0.6, training_intensity=16, learning_starts=1_000
    )
    return veldt.run_roles(roles, {"weights": weights, "replay": replay}, cluster=cluster)


if __name__ == "__main__":
    print(main(*sys.argv[1:2]))
