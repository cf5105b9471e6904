"""Stooke & Abbeel, table 1 and figures 9 to 11: scores on Atari games."""

from __future__ import annotations

from typing import Any

from veldt.experiments.catalogue.common import ALONE, STOOKE, replay_settings, scores_table
from veldt.experiments.experiment import Experiment, Request, Training
from veldt.experiments.figures import Exhibit, learning_curves
from veldt.experiments.results import Results

# Configurations of table 1, with their average and median human-normalised scores in the paper.
_ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "A2C 16-env": ("a2c", {"num_envs": 16}),
    "A2C 128-env": ("a2c", {"num_envs": 128}),
    "PPO 8-env": ("ppo", {"num_envs": 8}),
    "PPO 128-env": ("ppo", {"num_envs": 128}),
    "DQN-512": ("dqn", {"batch_size": 512}),
    "CatDQN-2048": ("c51", {"batch_size": 2048}),
    "ε-Rainbow-512": ("rainbow", {"batch_size": 512}),
}
_SMALL = ("A2C 16-env", "PPO 8-env")
_POLICY_GRADIENT_STEPS, _Q_STEPS, _SMALL_STEPS = 25_000_000, 50_000_000, 500_000
_GAMES = (
    "Alien Amidar Assault Asterix Asteroids Atlantis BankHeist BattleZone BeamRider Bowling Boxing Breakout Centipede "
    "ChopperCommand CrazyClimber DemonAttack DoubleDunk Enduro FishingDerby Freeway Frostbite Gopher Gravitar Hero "
    "IceHockey Jamesbond Kangaroo Krull KungFuMaster MontezumaRevenge MsPacman NameThisGame Pong PrivateEye Qbert "
    "Riverraid RoadRunner Robotank Seaquest SpaceInvaders StarGunner Tennis TimePilot Tutankham UpNDown Venture "
    "VideoPinball WizardOfWor Zaxxon"
)


def _jobs(request: Request) -> list[Training]:
    games = ("Pong", "Breakout") if request.is_small else tuple(_GAMES.split())
    jobs = []
    for env in request.envs(*(f"ALE/{game}-v5" for game in games)):
        for label, (recipe, settings) in _ROWS.items():
            if request.is_small and label not in _SMALL:
                continue
            learns_from_replay = recipe in ("dqn", "c51", "rainbow")
            sizes = replay_settings(env, settings["batch_size"]) if learns_from_replay else {}
            steps = _Q_STEPS if learns_from_replay else _POLICY_GRADIENT_STEPS
            jobs += [
                Training(
                    group=label,
                    recipe=recipe,
                    env=env,
                    seed=seed,
                    settings={
                        **ALONE,
                        **settings,
                        **sizes,
                        "steps": _SMALL_STEPS if request.is_small else steps,
                    },
                )
                for seed in request.seed_range
            ]
    return jobs


def _draw(results: Results) -> Exhibit:
    says = (
        "Raw scores of training by game and configuration. In the paper, scaled configurations (more simulators, "
        "larger batches) match the unscaled ones: average and median human-normalised scores of A2C are 2.5 and "
        "0.65 with 16 simulators and 8.0 and 0.48 with 128."
    )
    return Exhibit(says, [learning_curves(results)], [scores_table(results)])


SCORES = Experiment(
    name="scores",
    source=f"{STOOKE}, table 1 and figures 9 to 11",
    shows="Scores on Atari games of baseline and scaled configurations.",
    jobs=_jobs,
    draw=_draw,
    differs=lambda request: [
        *(
            [f"Two games, two configurations and {_SMALL_STEPS:,} steps, of which little is learned."]
            if request.is_small
            else []
        ),
        "Scores are those of training, with its exploration.",
    ],
    seeds=(1, 2),
)
