"""The environments that a user names for an experiment: any spelling of an Atari game, or an environment's id."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import gymnasium

from veldt.envs.source import ATARI_PREFIX, atari_games, resolve
from veldt.errors import UsageError, did_you_mean
from veldt.report.normalising import game_key


def resolved(names: Iterable[str], env_of: Callable[[str], str]) -> tuple[str, ...]:
    """Returns what `env_of` makes of each name, each once. UsageError if one is not known."""
    return tuple(dict.fromkeys(env_of(name) for name in names))


def env_of_game(name: str, others: str = ", Gymnasium ids such as CartPole-v1, or module:function") -> str:
    """Returns the id of an environment: ALE/Pong-v5 for Pong, pong or PongNoFrameskip-v4, others as they are.

    Args:
        others: what else than the name of an Atari game may be given, as the end of a sentence.

    Raises:
        UsageError: there is no such environment.
        EnvError: its module failed when it was imported.
    """
    games = {game_key(one): one for one in atari_games()}
    spec = gymnasium.registry.get(name)
    is_another = ":" in name or (spec is not None and not str(spec.entry_point).startswith("ale_py"))
    if not is_another and game_key(name) in games:
        return games[game_key(name)]
    is_word = re.fullmatch(r"\w+", name) is not None
    if is_word and games:
        known = [one.removeprefix(ATARI_PREFIX).removesuffix("-v5") for one in games.values()]
        raise UsageError(
            f"--games has '{name}', which is not an Atari game{did_you_mean(name, known)}: give names such as "
            f"Pong{others}"
        )
    env = f"{ATARI_PREFIX}{name}-v5" if is_word else name
    resolve(env)
    return env


def env_of_atari_game(name: str) -> str:
    """As `env_of_game`, for experiments whose recipes have a paper's values for Atari games alone."""
    env = env_of_game(name, others="")
    refuse_others_than_atari(name, env)
    return env


def refuse_others_than_atari(name: str, env: str, scale: str = "") -> None:
    """Raises UsageError if `env`, which the user gave as `name`, is no Atari game.

    Args:
        scale: the only one at which the experiment's recipes have a paper's values; "" if they have them at each.
    """
    if env.startswith(ATARI_PREFIX):
        return
    at, another = (f"at --scale {scale} ", f", or leave --scale {scale} out") if scale else ("", "")
    raise UsageError(
        f"--games has '{name}', which is not an Atari game, and this experiment has {at}a paper's values for Atari "
        f"games alone: give names such as Pong{another}"
    )
