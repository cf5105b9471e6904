"""The share of gradients that are discarded, and the warning about it."""

from __future__ import annotations

from veldt.systems.gorila.discard_monitor import DiscardMonitor


def test_a_share_is_of_the_newest_window() -> None:
    discards = DiscardMonitor(lambda share: None)
    discards.add(1000, 1000)
    discards.add(1010, 1100)
    assert discards.share is None, "too few to say, but for those of a run before"
    discards.add(1050, 1250)
    assert discards.share == 50 / 250
    discards.add(1050, 1650)
    assert discards.share == 0.0


def test_one_warning_with_the_share_when_most_gradients_are_discarded_for_long() -> None:
    said: list[float] = []
    discards = DiscardMonitor(said.append)
    discards.add(0, 0)
    of = discarded = 0
    for share in (0.9, 0.9, 0.4, 0.8, 0.8):
        of, discarded = of + 200, discarded + int(share * 200)
        discards.add(discarded, of)
    assert not said, "never for long"
    for _ in range(5):
        of, discarded = of + 200, discarded + 150
        discards.add(discarded, of)
    assert said == [0.75]
