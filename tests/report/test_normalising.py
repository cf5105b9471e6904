"""Human-normalised scores: the published numbers, and one sentence for a game that has none."""

from __future__ import annotations

import csv
from importlib import resources

import numpy as np
import pytest

from veldt.errors import UsageError
from veldt.report.normalising import STARTS, human_normalised, is_normalisable
from veldt.report.published import published_score, published_scores

TABLE = (resources.files("veldt.report") / "reference" / "atari_scores.csv").read_text("utf-8")
ROWS = list(csv.DictReader(TABLE.splitlines()))


def test_each_table_has_its_games_and_each_row_a_source() -> None:
    counts = {starts: len({row["game"] for row in ROWS if row["starts"] == starts}) for starts in STARTS}
    assert counts == {"no-op": 57, "no-op-2015": 49, "human": 57}
    assert len(ROWS) == 57 + 49 + 57
    assert all(row["source"] for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['game']}-{row['starts']}")
def test_a_random_score_is_0_and_a_human_score_is_1(row: dict[str, str]) -> None:
    lowest = 0.0 if row["game"] == "VideoPinball" else float(row["random"])
    assert human_normalised(lowest, row["game"], row["starts"]) == 0
    assert human_normalised(float(row["human"]), row["game"], row["starts"]) == 1


def test_published_scores() -> None:
    # DQN on Breakout, of Mnih et al. (2015): 401.2 is 1327% of a human's with the scores of that paper.
    assert human_normalised(401.2, "breakout", "no-op-2015") == pytest.approx(13.27, abs=0.01)
    assert human_normalised(401.2, "breakout") == pytest.approx(13.87, abs=0.01)
    assert np.isfinite(human_normalised(1e6, "video_pinball", "human"))


def test_published_scores_of_agents() -> None:
    """They are those of which Nair et al. (2015) say that Gorila is better on 41 and on 31 of 49 games."""
    for starts, better in (("human", 41), ("no-op", 31)):
        dqn, gorila = published_scores("DQN", starts), published_scores("Gorila", starts)
        assert len(dqn) == 49 and dqn.keys() == gorila.keys()
        assert sum(gorila[game] > dqn[game] for game in dqn) == better
    assert published_score("DQN", "ALE/Breakout-v5") == 401.2
    assert published_score("DQN", "Surround") is None


@pytest.mark.parametrize(
    "name",
    ["ALE/BankHeist-v5", "BankHeistNoFrameskip-v4", "BankHeistDeterministic-v0", "bank_heist", "BankHeist"],
)
def test_the_names_of_a_game(name: str) -> None:
    assert human_normalised(753.1, name) == 1
    assert is_normalisable(name)


def test_a_game_without_a_human_score() -> None:
    with pytest.raises(UsageError, match="'ALE/Adventure-v5' has no published human score for no-op starts"):
        human_normalised(1.0, "ALE/Adventure-v5")
    with pytest.raises(UsageError, match=r"'brekout' .* \(did you mean 'Breakout'\?\)"):
        human_normalised(1.0, "brekout")
    with pytest.raises(UsageError, match="'Berzerk' has no published human score for no-op-2015 starts"):
        human_normalised(1.0, "Berzerk", "no-op-2015")
    assert not is_normalisable("CartPole-v1")
    with pytest.raises(UsageError, match="starts is 'noop': it must be one of no-op, no-op-2015, human"):
        human_normalised(1.0, "Breakout", "noop")
