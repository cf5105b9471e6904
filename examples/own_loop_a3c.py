"""A3C (Mnih et al. 2016) in a loop of one's own: learners push gradients to a server, and pull its parameters.

`python examples/own_loop_a3c.py` runs on this machine, `python examples/own_loop_a3c.py local` the same on Ray.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

import veldt


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
        self.value = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))


def play(env: gym.Env, network: ActorCritic) -> tuple[torch.Tensor, torch.Tensor, list[float], bool]:
    """Plays an episode; returns observations [T+1, 4], actions [T], rewards, and whether it terminated."""
    observations, actions, rewards, done = [env.reset()[0]], [], [], False
    while not done:
        with torch.no_grad():
            logits = network.policy(torch.from_numpy(observations[-1]))
        actions.append(int(torch.multinomial(logits.softmax(-1), 1)))
        observation, reward, terminated, truncated, _ = env.step(actions[-1])
        observations.append(observation)
        rewards.append(float(reward))
        done = terminated or truncated
    return torch.from_numpy(np.stack(observations)), torch.tensor(actions), rewards, terminated


def learn(process: veldt.RoleProcess, gradients: Any, solved: float, episodes: int) -> dict[str, float]:
    """Plays episodes with the newest parameters, and pushes the gradient of each."""
    torch.manual_seed(process.index)
    env, network, scores = gym.make("CartPole-v1"), ActorCritic(), deque[float](maxlen=100)
    env.reset(seed=process.index)
    for episode in range(1, episodes + 1):
        gradients.pull(network)
        observations, actions, rewards, terminated = play(env, network)
        value = network.value(observations).squeeze(-1)
        following, targets = 0.0 if terminated else value[-1].item(), []
        for reward in reversed(rewards):
            following = reward + 0.99 * following
            targets.append(following)
        advantage = torch.tensor(targets[::-1]) - value[:-1]
        log_probs = network.policy(observations[:-1]).log_softmax(-1)
        taken, entropy = log_probs.gather(-1, actions[:, None])[:, 0], -(log_probs.exp() * log_probs).sum(-1)
        network.zero_grad()
        (-taken * advantage.detach() + 0.5 * advantage.square() - 0.01 * entropy).mean().backward()
        nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        gradients.push(network)
        scores.append(sum(rewards))
        mean = float(np.mean(scores))
        if episode % 50 == 0:
            process.log(episodes=episode, mean_return=mean)
        if len(scores) == 100 and mean >= solved:
            process.stop_all(f"the mean return of 100 episodes is {mean:.1f}")
        if not process.running:
            break
    return {"episodes": episode, "mean_return": mean}


def main(cluster: str | None = None, solved: float = 475.0, episodes: int = 5_000) -> veldt.Finished:
    learners = veldt.Processes(learn, count=3, kwargs={"solved": solved, "episodes": episodes})
    gradients = veldt.GradientServer(ActorCritic, lambda p: torch.optim.Adam(p, lr=3e-3), source="learner")
    return veldt.run_roles({"learner": learners}, {"gradients": gradients}, cluster=cluster)


if __name__ == "__main__":
    print(main(*sys.argv[1:2]))
