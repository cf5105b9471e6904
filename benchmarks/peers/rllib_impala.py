"""RLlib's IMPALA: environment steps per second while it learns, after a warm-up."""

import argparse
import os
import time

import ray
from measure import report
from ray.rllib.algorithms.impala import IMPALAConfig


def trained(result: dict) -> int:
    """Steps that have been learned from."""
    if "learners" in result:
        return int(result["learners"]["__all_modules__"]["num_env_steps_trained_lifetime"])
    return int(result["num_env_steps_trained"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--actors", type=int, default=8)
    parser.add_argument("--envs", type=int, default=1, help="envs of each actor")
    parser.add_argument("--stack", choices=("new", "old"), default="new", help="which of RLlib's APIs")
    parser.add_argument("--torch-threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warmup", type=float, default=15.0)
    args = parser.parse_args()

    # Workers stand back by 15 otherwise, which any neighbour would take advantage of.
    os.environ.update(RAY_worker_niceness="0", OMP_NUM_THREADS=str(args.torch_threads))
    ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False, num_cpus=args.actors + 4)
    config = (
        IMPALAConfig()
        .environment(args.env)
        .env_runners(num_env_runners=args.actors, num_envs_per_env_runner=args.envs)
        .debugging(log_level="ERROR")
    )
    if args.stack == "new":
        config = config.learners(num_learners=0).training(train_batch_size_per_learner=500)
    else:
        old = {"enable_rl_module_and_learner": False, "enable_env_runner_and_connector_v2": False}
        config = (
            config.api_stack(**old).framework("torch").resources(num_gpus=0).training(train_batch_size=500)
        )
    algorithm = config.build_algo()

    def until(seconds: float) -> tuple[int, float]:
        begin = time.perf_counter()
        while True:
            result = algorithm.train()
            if time.perf_counter() - begin > seconds:
                return trained(result), time.perf_counter()

    first, began = until(args.warmup)
    last, ended = until(args.seconds)
    report(
        "RLlib",
        f"IMPALA on {args.env}, {args.actors} actors of {args.envs} envs",
        steps=last - first,
        seconds=ended - began,
        packages=("ray", "torch", "gymnasium"),
        settings={"envs": args.envs, "stack": args.stack, "torch_threads": args.torch_threads},
    )
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
