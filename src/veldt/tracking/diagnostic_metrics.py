"""The metrics of `--log-norms` and `--log-saturation`, a part of the dictionary of metrics."""

from __future__ import annotations

from veldt.tracking.metric import Metric

_NORMS = "runs with `--log-norms`"

DIAGNOSTICS = (
    Metric(
        "train/gradient_cosine",
        "",
        "Cosine of the gradient of a batch and that of half of it; 0.707 where the halves have nothing in common "
        "(Stooke & Abbeel 2018, section 5.5). Mean over the updates of the interval.",
        "runs with `--log-saturation`",
    ),
    Metric(
        "norms/weights",
        "",
        "L2 norm of all parameters after an update, and with a parameter's name behind (`norms/weights/NAME`) of each "
        "(appendix D). Mean over the updates of the interval, as are the next two.",
        _NORMS,
    ),
    Metric("norms/gradient", "", "The same of the gradient, before clipping.", _NORMS),
    Metric(
        "norms/step",
        "",
        "The same of the parameters' change by an update; 0 with `gorila`, where the server makes it.",
        _NORMS,
    ),
)
