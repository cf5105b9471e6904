"""A2C as a competent person writes it in one file: plain PyTorch, fp32, on EnvPool.

Every update steps all envs `--horizon` times with the current policy, then takes one RMSProp step on
the whole batch. Nothing is compiled, pinned or overlapped. The rows in which EnvPool only reports a reset are
trained on, as such programs do, but they are not counted as steps.
"""

import argparse

import envpool
import torch
from measure import measure, report
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F

HEIGHT, WIDTH = 104, 80


class A3CNet(nn.Module):
    """The network of A3C on frames of 104 x 80: two convolutions, one hidden layer, a policy and a value."""

    def __init__(self, actions: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 16, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 12 * 9, 256),
            nn.ReLU(),
        )
        self.policy = nn.Linear(256, actions)
        self.value = nn.Linear(256, 1)

    def forward(self, frames: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.body(frames.float() / 255)
        return self.policy(features), self.value(features).squeeze(-1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="Breakout", help="name of the game, in CamelCase")
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--horizon", type=int, default=5)
    parser.add_argument("--learning-rate", type=float, default=7e-4)
    parser.add_argument("--threads", type=int, default=2, help="threads of EnvPool")
    parser.add_argument("--torch-threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warmup", type=float, default=10.0, help="seconds trained before the clock starts")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.set_num_threads(args.torch_threads)
    torch.manual_seed(args.seed)
    envs = envpool.make(
        f"{args.game}-v5",
        env_type="gymnasium",
        num_envs=args.num_envs,
        num_threads=args.threads,
        img_height=HEIGHT,
        img_width=WIDTH,
        reward_clip=True,
        seed=args.seed,
    )
    net = A3CNet(envs.action_space.n)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=args.learning_rate, alpha=0.99, eps=1e-5)
    shape = (args.horizon, args.num_envs)
    frames = torch.zeros((*shape, 4, HEIGHT, WIDTH), dtype=torch.uint8)
    actions = torch.zeros(shape, dtype=torch.long)
    rewards, finished = torch.zeros(shape), torch.zeros(shape)
    now = torch.from_numpy(envs.reset()[0])

    def update() -> int:
        nonlocal now
        for t in range(args.horizon):
            frames[t] = now
            with torch.no_grad():
                actions[t] = Categorical(logits=net(now)[0]).sample()
            seen, reward, terminated, truncated, _ = envs.step(actions[t].int().numpy())
            now = torch.from_numpy(seen)
            rewards[t] = torch.from_numpy(reward)
            finished[t] = torch.from_numpy(terminated | truncated)

        returns = torch.zeros_like(rewards)
        with torch.no_grad():
            after = net(now)[1]
        for t in reversed(range(args.horizon)):
            after = rewards[t] + 0.99 * (1 - finished[t]) * after
            returns[t] = after

        logits, values = net(frames.flatten(0, 1))
        policy, returns = Categorical(logits=logits), returns.flatten()
        advantages = returns - values.detach()
        loss = -(policy.log_prob(actions.flatten()) * advantages).mean()
        loss = loss + 0.5 * F.mse_loss(values, returns) - 0.01 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        # Each finished game is followed by exactly one row that is a reset and no step.
        return finished.numel() - int(finished.sum())

    steps, seconds = measure(update, seconds=args.seconds, warmup=args.warmup)
    report(
        "plain-pytorch",
        f"A2C, {args.game}",
        steps=steps,
        seconds=seconds,
        packages=("envpool", "torch"),
        settings=vars(args) | {"height": HEIGHT, "width": WIDTH},
    )


if __name__ == "__main__":
    main()
