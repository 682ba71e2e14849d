"""Plots that several chapters share: tidy data in, a matplotlib Figure out; captions name it.

figures.lines(curves, "rank", "accuracy", hue="method", col="probe", baseline=majority)
"""

from probebook.figures.comparisons import (
    bars,
    heat,
    histograms,
    ranges,
    scatter_pairs,
    versus_published,
)
from probebook.figures.curves import lines
from probebook.figures.look import GREYS, PALETTE, method_colours, style
from probebook.figures.widgets import live, slider
from probebook.measures import MEASURES
