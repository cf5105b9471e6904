"""Progress of a run on the screen: a live panel on a terminal, otherwise a plain line at intervals.

Drawing happens inside `update`, at most a few times per second: a refresh thread would take time from training. If the
screen goes away (closed terminal, broken pipe), it stops drawing; it never stops the run.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from veldt.standard_streams import discard_output, is_terminal
from veldt.tracking.progress_views import panel, plain_line

if TYPE_CHECKING:
    from rich.live import Live

_PANEL_SECONDS = 0.25
_LINE_SECONDS = 5.0


class Progress:
    """Shows rows of metrics.

    `total_steps` is the planned number of agent steps, `until` the return at which training stops early (None: never).
    A row has the run's metrics (`metric_names.py`) and, of the whole run so far, the shares of wall time by stage,
    `share_simulate` to `share_wait`, 0..1, and the estimated `eta_seconds`. Missing or None values are unknown.
    """

    def __init__(
        self,
        title: str,
        total_steps: int,
        until: float | None = None,
        stream: TextIO | None = None,
    ) -> None:
        self._title, self._total_steps, self._until = title, max(1, total_steps), until
        # A program that was started with `2>&-` has none.
        self._stream = stream or sys.stderr or Silent()
        self._quiet = False
        self._shown_at = self._refreshed_at = -float("inf")
        self._live: Live | None = None
        self._safely(self._start_panel)

    def update(self, row: Mapping[str, Any]) -> None:
        """Shows `row`, unless another was shown a moment ago. Costs almost nothing when it does not draw."""
        now = time.monotonic()
        if self._quiet or now - self._shown_at < (_LINE_SECONDS if self._live is None else _PANEL_SECONDS):
            return
        self._shown_at = now
        self._safely(lambda: self._show(row))

    def refresh(self, row: Mapping[str, Any]) -> None:
        """Shows a row that is not new, with a later time: on a panel, or before the first step as a line of its own."""
        if self._live is not None:
            self.update(row)
        elif not row.get("step") and time.monotonic() - self._refreshed_at >= _LINE_SECONDS:
            self._refreshed_at = time.monotonic()
            self._safely(lambda: self._show(row))

    def note(self, text: str) -> None:
        """Prints a line above the panel (a restarted env, a saved checkpoint)."""
        self._safely(lambda: self._print(text))

    def close(self) -> None:
        """Restores the screen; closing twice is allowed."""
        live, self._live = self._live, None
        if live is not None:
            self._safely(live.stop)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start_panel(self) -> None:
        encoding = (getattr(self._stream, "encoding", None) or "").lower()
        if (
            not is_terminal(self._stream)
            or os.environ.get("TERM", "") in ("", "dumb")
            or not encoding.startswith("utf")
        ):
            return
        from rich.console import Console
        from rich.live import Live

        live = Live(console=Console(file=self._stream), auto_refresh=False)
        live.start()
        self._live = live

    def _show(self, row: Mapping[str, Any]) -> None:
        if self._live is None:
            self._print(plain_line(row, self._total_steps, self._until))
        else:
            self._live.update(panel(self._title, row, self._total_steps, self._until), refresh=True)

    def _print(self, text: str) -> None:
        if self._live is None:
            # A dash that the stream cannot encode must not be mistaken for a closed terminal.
            encoding = getattr(self._stream, "encoding", None) or "utf-8"
            self._stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
            self._stream.flush()
        else:
            # `text` may contain rich markup characters.
            self._live.console.print(text, markup=False, highlight=False)

    def _safely(self, write: Callable[[], None]) -> None:
        if self._quiet:
            return
        try:
            write()
        except (OSError, ValueError):  # ValueError: the stream was closed in this process.
            self._go_quiet()

    def _go_quiet(self) -> None:
        self._quiet = True
        live, self._live = self._live, None
        if live is not None:
            # Restores standard output and error, which the panel had redirected.
            with contextlib.suppress(OSError, ValueError):
                live.stop()
        if self._stream in (sys.stderr, sys.stdout):
            discard_output(self._stream)


class Silent(io.StringIO):
    """A stream that discards its output."""

    def write(self, text: str) -> int:
        return len(text)
