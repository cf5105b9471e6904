"""One metric of the dictionary."""

from __future__ import annotations

from dataclasses import dataclass

EVERY = "every run"


@dataclass(frozen=True)
class Metric:
    """One metric.

    Args:
        name: the key in metrics.jsonl and the tag in TensorBoard.
        unit: of its value; "" where the value has no unit.
        meaning: what it is and how it is measured, in Markdown.
        emitter: which runs log it.
    """

    name: str
    unit: str
    meaning: str
    emitter: str = EVERY

    @property
    def prefix(self) -> str:
        return self.name.partition("/")[0] if "/" in self.name else ""
