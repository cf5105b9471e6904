"""Starts from episodes that a person plays: keys become actions, points are drawn from all steps."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import veldt
from environments import scripted
from veldt.cli import main
from veldt.cli.verbs import play
from veldt.envs.settings import AtariConfig
from veldt.envs.source import resolve
from veldt.envs.step_env import make_step_env
from veldt.evaluation.starts import read_starts
from veldt.evaluation.window import Window


class Hands:
    """A window: holds the given keys, frame by frame, and then is closed, or raises KeyboardInterrupt."""

    def __init__(self, *keys: str, interrupt: bool = False) -> None:
        self._keys: Iterator[str] = iter(keys)
        self._interrupt, self.titles, self.pictures = interrupt, list[str](), list[np.ndarray]()

    def show(self, picture: np.ndarray, title: str) -> frozenset[str] | None:
        self.titles.append(title)
        self.pictures.append(picture.copy())
        try:
            return frozenset(next(self._keys).split())
        except StopIteration:
            if self._interrupt:
                raise KeyboardInterrupt from None
            return None

    def close(self) -> None:
        pass


NAMES = ["NOOP", "FIRE", "UP", "RIGHT", "UPRIGHT", "UPRIGHTFIRE", "DOWNLEFTFIRE"]


@pytest.mark.parametrize(
    ("held", "name"),
    [
        ("", "NOOP"),
        ("UP", "UP"),
        ("UP RIGHT", "UPRIGHT"),
        ("FIRE RIGHT UP", "UPRIGHTFIRE"),
        ("LEFT", "NOOP"),  # there is no such action, and none asks for less
        ("LEFT FIRE", "FIRE"),
        ("LEFT FIRE DOWN 3", "DOWNLEFTFIRE"),
        ("DOWN UP", "UP"),
    ],
)
def test_keys_are_words_of_an_actions_name(held: str, name: str) -> None:
    assert NAMES[play.action_of(frozenset(held.split()), NAMES, len(NAMES))] == name


def test_keys_are_numbers_of_actions_without_names() -> None:
    assert play.action_of(frozenset({"2"}), [], 3) == 2
    assert play.action_of(frozenset({"3", "1", "UP"}), [], 3) == 1
    assert play.action_of(frozenset({"3"}), [], 3) == 0


def test_names_are_the_games_own() -> None:
    game = resolve("ALE/SpaceInvaders-v5")
    words = ["NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"]
    assert make_step_env(game, AtariConfig()).action_names() == words
    assert len(make_step_env(game, AtariConfig(full_action_space=True)).action_names()) == 18
    # The same game as Gymnasium has it, and an environment whose actions are numbers.
    assert make_step_env(resolve(of_ale_py), AtariConfig()).action_names() == words
    assert make_step_env(resolve("CartPole-v1"), AtariConfig()).action_names() == []


def of_ale_py() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("ALE/SpaceInvaders-v5")


@pytest.mark.parametrize("interrupt", [False, True])
def test_episodes_are_recorded_as_seeds_and_actions(interrupt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """CartPole falls after some ten pushes to one side; the last episode is left."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    step_env = make_step_env(resolve("CartPole-v1"), AtariConfig(), render=True)
    hands = Hands(*["1"] * 12, *["0 1"] * 18, interrupt=interrupt)
    episodes = play.play(step_env, hands, iter([5, 6, 7, 8]))
    step_env.close()
    assert [seed for seed, _ in episodes] == [5, 6, 7]
    assert sum(len(actions) for _, actions in episodes) == 30
    assert all((actions == 1).all() for _, actions in episodes[:1]) and (episodes[-1][1] == 0).all()
    assert hands.titles[0] == "episode 1 · score 0 · Esc ends" and hands.titles[1].startswith(
        "episode 1 · score 1 "
    )
    assert hands.titles[-1].startswith("episode 3 ") and hands.pictures[0].shape == (400, 600, 3)
    env = resolve("CartPole-v1").make()
    for seed, actions in episodes[:2]:
        env.reset(seed=seed)
        over = [env.step(int(action))[2] for action in actions]
        assert over[-1] and not any(over[:-1])


def test_points_are_uniform_over_all_steps() -> None:
    episodes = [(1, np.arange(3)), (2, np.zeros(0, np.int64)), (3, np.arange(4)), (4, np.arange(1))]
    everywhere = play.draw(episodes, 8, np.random.default_rng(0))
    assert [(seed, actions.tolist()) for seed, actions in everywhere] == [
        *[(1, list(range(k))) for k in range(3)],
        *[(3, list(range(k))) for k in range(4)],
        (4, []),
    ]
    rng = np.random.default_rng(1)
    drawn = [(s, len(actions)) for _ in range(4000) for s, actions in play.draw(episodes, 2, rng)]
    counts = np.array([drawn.count(place) for place in set(drawn)])
    assert len(counts) == 8 and (abs(counts - 1000) < 5 * np.sqrt(1000)).all()
    assert len(play.draw(episodes, 100, rng)) == 8, "what was played is kept"
    for nothing in (episodes[1:2], []):
        with pytest.raises(veldt.UsageError, match="you played no step"):
            play.draw(nothing, 1, rng)


@pytest.mark.parametrize("env", ["ALE/Breakout-v5", "CartPole-v1"])
def test_starts_are_recorded_from_a_persons_episodes(
    env: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    hands = Hands(*["LEFT 1", "RIGHT 0", "FIRE"] * 14)
    monkeypatch.setattr(play, "Window", lambda rate: hands)
    out = tmp_path / "starts"
    main(["record-starts", "--play", "--env", env, "--starts", "9", "--out", str(out)])
    assert f"{out}: 9 starts of {env}, " in capsys.readouterr().out
    starts = read_starts(out)
    assert starts.made == {"by": "person", "episodes": starts.made["episodes"], "steps": 42}
    assert max(starts.lengths) > 6
    atari = {"max_episode_steps": 50} if env.startswith("ALE/") else {}
    settings = {"steps": 40, "num_envs": 2, "horizon": 5, "env_backend": "in-process", "quiet": True}
    run = veldt.train("a2c", env=env, run_dir=tmp_path / "run", **settings | atari)
    assert len(veldt.evaluate(run.path, starts=out).scores) == 9


def test_environments_that_a_person_cannot_play_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(veldt.UsageError, match="a person plays with keys, and Pendulum-v1 takes numbers"):
        play.record(None, "Pendulum-v1", 1, None, 0)
    with pytest.raises(veldt.UsageError, match="environments:scripted cannot be rendered"):
        play.record(None, "environments:scripted", 1, None, 0)
    assert scripted().render_mode is None


def test_playing_without_a_screen_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(veldt.UsageError, match=r"there is no screen to play on.*: play where you sit, and"):
        Window(30.0)
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(veldt.UsageError, match=r"not installed: pip install 'veldt\[video\]'"):
        Window(30.0)


def test_a_window_knows_which_keys_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame = pytest.importorskip("pygame")
    window = Window(1000.0)
    picture = np.zeros((210, 160, 3), np.uint8)

    def show(*events: tuple[int, int]) -> frozenset[str] | None:
        for kind, key in events:
            pygame.event.post(pygame.event.Event(kind, key=key))
        return window.show(picture, "an episode")

    down, up = pygame.KEYDOWN, pygame.KEYUP
    try:
        assert show() == frozenset()
        assert show((down, pygame.K_UP), (down, pygame.K_x)) == {"UP"}
        assert show((down, pygame.K_SPACE)) == {"UP", "FIRE"}
        assert show((up, pygame.K_UP)) == {"UP", "FIRE"}  # it was, for a while
        assert show() == {"FIRE"}
        assert show((up, pygame.K_SPACE), (down, pygame.K_KP3), (up, pygame.K_KP3)) == {"FIRE", "3"}
        assert show() == frozenset()
        assert (
            pygame.display.get_window_size() == (480, 630) and pygame.display.get_caption()[0] == "an episode"
        )
        assert show((down, pygame.K_ESCAPE)) is None
        pygame.event.post(pygame.event.Event(pygame.QUIT))
        assert window.show(picture, "an episode") is None
    finally:
        window.close()


WORDS = {
    "": "neither a run nor an env is given: name RUN for its policy, or add --play with RUN or --env for yourself",
    "--play": "neither a run nor an env is given",
    "--env CartPole-v1": "--env is CartPole-v1, and no run is named whose policy plays: name one, or add --play",
    "somewhere --env CartPole-v1 --play": "somewhere is not a veldt run: there is no such directory",
    "--env CartPole-v1 --play --network mlp": "--network sets how a policy plays, and with --play you play",
    "--env CartPole-v1 --play --trust": "--trust is about a run, and none is given: leave it out",
    "--env CartPole-v1 --play --greedy": "--greedy sets how a policy plays, and with --play you play",
    "--env CartPole-v1 --play --best": "--best sets how a policy plays",
    "--env CartPole-v1 --play --starts 0": "--starts is 0: it must be at least 1",
    "--env CartPole-v1 --play --seed -1": "--seed is -1: it must be 0 or more",
    "--env CartPol-v1 --play": "(did you mean 'CartPole-v1'?)",
    "--env CartPole-v1 --play --out no/where": "--out no/where: there is no directory no; make it, or name another",
    "nowhere": "nowhere is not a veldt run: there is no such directory",
    "nowhere --play": "nowhere is not a veldt run: there is no such directory",
    "nowhere --starts 0": "--starts is 0: it must be at least 1",
}


@pytest.mark.parametrize("arguments", WORDS)
def test_wrong_arguments_are_refused(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(["record-starts", *arguments.split()])
    said = capsys.readouterr().err
    assert WORDS[arguments] in said and said.count("\n") == 1
    assert not list(tmp_path.iterdir())
