"""Every plot of the book: tidy data in, a matplotlib Figure out; captions, not titles, name it.

One function per kind of figure; the modules group them by what they draw.

    figures.lines(curves, "rank", "accuracy", hue="method", col="probe", baseline=majority)
"""

from probebook.figures.calculator import calculator
from probebook.figures.comparisons import bars, beside, calibration, heat, ranges
from probebook.figures.curves import lines, margins, panels, roc, strength_curves
from probebook.figures.distributions import histograms, outcomes
from probebook.figures.drawings import causal_graphs, scheme
from probebook.figures.live import live
from probebook.figures.look import GREYS, METHODS, PALETTE, method_colours, style
from probebook.figures.moving import moving_state
from probebook.figures.scatterplots import (
    against,
    among,
    before_and_after,
    by_class,
    by_source,
    clouds,
    cut,
    fits,
    scatter,
)
from probebook.figures.sliders import slider
from probebook.measures import MEASURES

__all__ = [
    "GREYS",
    "MEASURES",
    "METHODS",
    "PALETTE",
    "against",
    "among",
    "bars",
    "before_and_after",
    "beside",
    "by_class",
    "by_source",
    "calculator",
    "calibration",
    "causal_graphs",
    "clouds",
    "cut",
    "fits",
    "heat",
    "histograms",
    "lines",
    "live",
    "margins",
    "method_colours",
    "moving_state",
    "outcomes",
    "panels",
    "ranges",
    "roc",
    "scatter",
    "scheme",
    "slider",
    "strength_curves",
    "style",
]
