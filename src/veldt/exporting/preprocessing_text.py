"""Sentences of a model card on what the policy takes and what it returns."""

from __future__ import annotations

from collections.abc import Iterator

from veldt.agent import Agent
from veldt.envs.spec import ActionSpec, ArraySpec
from veldt.networks.build import is_own_network, scale_of
from veldt.networks.normaliser import CLIP, NAME, normaliser_of
from veldt.runs.own_names import WEIGHTS


def observation_lines(agent: Agent) -> list[str]:
    """Returns what happens to an observation before and in the network, a list item each."""
    lines = list(_atari(agent)) if agent.source.is_atari else []
    normaliser = normaliser_of(agent.network)
    places = [] if normaliser is None else [name for name, _ in normaliser.statistics()]
    for name, field in agent.spec.observation.items():
        text = _field(agent, field)
        if name in places:
            text += (
                f"; then (x - mean) / sqrt(variance + 1e-8), clipped to ±{CLIP:g}, with the statistics of training "
                f"in `{WEIGHTS}`: `{NAME}.fields.{places.index(name)}.mean` and `.variance`"
            )
        lines.append(f"{f'`{name}`' if name else 'The observation'}: {text}.")
    return lines


def action_line(spec: ActionSpec) -> str:
    """Returns what an action is."""
    match spec.kind:
        case "discrete":
            first = spec.start[0]
            return f"A whole number from {first} to {first + spec.sizes[0] - 1}."
        case "multi":
            return f"Whole numbers {list(spec.env_shape)}: one of {list(spec.sizes)} choices each."
    units = "The network's -1 and 1 stand for the bounds of the action space"
    if not spec.is_bounded:
        units += (
            ", with one finite bound in units of 1 from there, and with none a number is the action itself"
        )
    whole = ", and rounded to whole numbers" if spec.takes_integers else ""
    return f"{spec.env_dtype} {list(spec.env_shape)}. {units}; actions are clipped to the bounds{whole}."


def _field(agent: Agent, field: ArraySpec) -> str:
    shape = list(field.network_shape)
    if field.dtype == "uint8":
        scaled = (
            "as they are"
            if is_own_network(agent.config.network.network)
            else f"multiplied by 1/{1 / scale_of(field):g} in the network"
        )
        pixels = len(shape) > 1 and not field.largest < 255
        what = "pixels" if pixels else f"whole numbers from 0 to {min(field.largest, 255):g}"
        return f"{what}, uint8 {shape}, {scaled}"
    if field.is_box:
        return f"numbers, converted to float32 {shape}"
    return f"flattened as `gymnasium.spaces.flatten` does (a `Discrete` is one-hot, numbers stay), float32 {shape}"


def _atari(agent: Agent) -> Iterator[str]:
    atari, field = agent.config.atari, agent.spec.observation[""]
    how = (
        "the screen in grey without its first and last row, then means of 2x2 pixels"
        if atari.preprocessing == "104x80"
        else "the screen in grey, resized by area"
    )
    yield (
        f"A frame is uint8 {list(field.shape)}: {how}. It is the maximum of the last two of {atari.frame_skip} "
        "emulator frames, over which an action is repeated."
    )
    yield (
        f"The observation is the last {atari.frame_stack} frames, the newest last; frames from before the episode "
        "are 0. `agent.make_env()` makes an environment with these observations."
    )
    no_ops = f"1 to {atari.no_ops} no-ops" if atari.no_ops > 1 else "a no-op"
    yield (
        f"An episode begins with {no_ops} of one emulator frame, then a step of FIRE if that is the game's second "
        f"action, and ends after {atari.max_episode_steps:,} steps; sticky "
        f"actions have the probability {atari.sticky_actions:g}, and the actions are "
        f"{'all 18' if atari.full_action_space else 'those that the game uses'}."
    )
