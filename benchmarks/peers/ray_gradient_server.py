"""A Ray actor as a gradient server: learners push gradients, it applies them by Adam, and they pull the model.

All are Ray actors, as fast as they can. Each learner has two gradients under way and, if it is to pull, takes a model
after each push, which it has asked for one push before. The server applies torch's Adam, fused into one pass or, as
Machin's does, as it comes.
"""

import argparse
import json
import time

import numpy as np
import ray
import torch
from measure import cpu_seconds


@ray.remote(num_cpus=0)
class Server:
    def __init__(self, numbers: int, fused: bool, threads: int) -> None:
        torch.set_num_threads(threads)
        self._parameters = torch.zeros(numbers, requires_grad=True)
        self._rule = torch.optim.Adam([self._parameters], lr=1e-3, fused=fused)
        self.version = 0

    def push(self, gradient: np.ndarray) -> None:
        self._parameters.grad = torch.from_numpy(gradient)
        self._rule.step()
        self.version += 1

    def pull(self) -> tuple:
        return self.version, self._parameters.detach().numpy()

    def count(self) -> int:
        return self.version


@ray.remote(num_cpus=0)
class Learner:
    def __init__(self, server, numbers: int, pulls: bool) -> None:
        self._server, self._pulls = server, pulls
        self._gradient = np.random.default_rng(0).normal(size=numbers).astype(np.float32)
        self._own = np.empty(numbers, np.float32)

    def run(self, seconds: float) -> None:
        under_way, asked, end = [], [], time.monotonic() + seconds
        while time.monotonic() < end:
            under_way.append(self._server.push.remote(self._gradient))
            if len(under_way) > 1:
                ray.get(under_way.pop(0))
            if self._pulls:
                asked.append(self._server.pull.remote())
                if len(asked) > 1:
                    np.copyto(self._own, ray.get(asked.pop(0))[1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--numbers", type=int, required=True)
    parser.add_argument("--learners", type=int, required=True)
    parser.add_argument("--pulls", action="store_true")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0)
    asked = parser.parse_args()
    ray.init(
        address="local",  # not another's that runs here
        num_cpus=asked.learners + 1,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    server = Server.remote(asked.numbers, asked.fused, asked.threads)
    learners = [Learner.remote(server, asked.numbers, asked.pulls) for _ in range(asked.learners)]
    ray.get([learner.run.remote(2.0) for learner in learners])
    before, begin, cpu = ray.get(server.count.remote()), time.perf_counter(), cpu_seconds()
    ray.get([learner.run.remote(asked.seconds) for learner in learners])
    pushes, took = ray.get(server.count.remote()) - before, time.perf_counter() - begin
    print(json.dumps({"pushes": pushes / took, "cpu_ms": 1e3 * (cpu_seconds() - cpu) / pushes}))
    ray.shutdown()


if __name__ == "__main__":
    main()
