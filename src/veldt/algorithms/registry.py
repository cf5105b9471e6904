"""The registry of algorithms."""

from __future__ import annotations

import inspect
import typing
from dataclasses import dataclass

from veldt.algorithms.base import Algorithm, OffPolicy, OnPolicy
from veldt.algorithms.capabilities import CAPABILITIES, OFF_POLICY_CORRECTED, REPLAY
from veldt.algorithms.off_policy import OffPolicyConfig
from veldt.algorithms.policy_gradient import PolicyGradient
from veldt.algorithms.settings import AlgorithmConfig
from veldt.errors import UsageError, did_you_mean
from veldt.registry import Registry, registering_module
from veldt.setting_metadata import check_settings_class


@dataclass(frozen=True)
class AlgorithmEntry:
    """An algorithm and the class of its settings."""

    algorithm: type[Algorithm]
    settings: type[AlgorithmConfig]

    @property
    def capabilities(self) -> frozenset[str]:
        return self.algorithm.capabilities


ALGORITHMS: Registry[AlgorithmEntry] = Registry("algorithm", "veldt.algorithms.builtin")


def register_algorithm(name: str, algorithm: type[Algorithm], settings: type[AlgorithmConfig]) -> None:
    """Makes an algorithm known by `name`: to every system that it fits, to `--algorithm`, and to recipes.

    Call it where a module of yours is imported, so that every process of a run that imports the module knows the
    algorithm.

    Args:
        name: lower-case letters, digits and dashes.
        algorithm: a subclass of `OnPolicy` or `OffPolicy` (`veldt.algorithms.base`). Its `capabilities` decide which
            systems it fits.
        settings: a frozen dataclass, a subclass of `AlgorithmConfig`; with the capability "replay", of
            `OffPolicyConfig`.

    Raises:
        UsageError: a class is not of the required kind, lacks a method or has something else in its place, the
            capabilities are no set or one is unknown, the settings are not those that the algorithm's `__init__`
            declares, or another module has registered an algorithm of this name.
    """
    if not (isinstance(algorithm, type) and issubclass(algorithm, Algorithm)):
        raise UsageError(
            f"the algorithm {name} is {algorithm!r}: it must be a subclass of veldt.algorithms.base.OnPolicy or "
            "OffPolicy"
        )
    given: object = algorithm.capabilities
    if not (isinstance(given, frozenset | set) and all(isinstance(one, str) for one in given)):
        raise UsageError(
            f"the algorithm {name} has the capabilities {given!r}: they must be a set of names, such as "
            f"frozenset({{'{REPLAY}'}})"
        )
    if unknown := sorted(algorithm.capabilities - CAPABILITIES.keys()):
        raise UsageError(
            f"the algorithm {name} has the capability '{unknown[0]}'{did_you_mean(unknown[0], CAPABILITIES)}: known "
            f"are {', '.join(CAPABILITIES)}"
        )
    replays = issubclass(algorithm, OffPolicy)
    if replays != (REPLAY in algorithm.capabilities):
        raise UsageError(
            f"the algorithm {name} is {'a' if replays else 'not a'} subclass of OffPolicy, and "
            f"{'lacks' if replays else 'has'} the capability '{REPLAY}': the two belong together"
        )
    if OFF_POLICY_CORRECTED in algorithm.capabilities and not issubclass(algorithm, PolicyGradient):
        raise UsageError(
            f"the algorithm {name} has the capability '{OFF_POLICY_CORRECTED}', and is not a subclass of "
            "veldt.algorithms.policy_gradient.PolicyGradient, whose policy parameters actors send to the learner"
        )
    check_settings_class(f"the algorithm {name}", settings, OffPolicyConfig if replays else AlgorithmConfig)
    if not issubclass(settings, takes := _settings_taken_by(algorithm)):
        raise UsageError(
            f"the settings of the algorithm {name} are {settings.__name__}, and {algorithm.__name__}.__init__ takes "
            f"{takes.__name__}: register it with {takes.__name__}, or with a class derived from it"
        )
    if missing := sorted(algorithm.__abstractmethods__):
        raise UsageError(
            f"the algorithm {name} is {algorithm.__name__}, which does not define {', '.join(missing)}: do so, or "
            "derive from a class that does, such as veldt.algorithms.ppo.PPO or veldt.algorithms.dqn.DQN"
        )
    for method, _ in inspect.getmembers(OffPolicy if replays else OnPolicy, inspect.isfunction):
        if not callable(own := getattr(algorithm, method)):
            raise UsageError(
                f"the algorithm {name} is {algorithm.__name__}, whose {method} is {own!r}: it must be a method"
            )
    ALGORITHMS.add(name, AlgorithmEntry(algorithm, settings), registering_module())


def _settings_taken_by(algorithm: type[Algorithm]) -> type[AlgorithmConfig]:
    """Returns the settings that the constructor declares, as in `def __init__(self, config: PPOConfig, action)`."""
    try:
        hints = typing.get_type_hints(algorithm.__init__)
    except Exception:  # some annotations only a type checker can resolve
        hints = {}
    after_self = list(inspect.signature(algorithm.__init__).parameters)[1:]
    taken = hints.get(after_self[0]) if after_self else None
    return taken if isinstance(taken, type) and issubclass(taken, AlgorithmConfig) else AlgorithmConfig
