"""What the papers measure, and how sure one can be: pure functions on arrays, one value per item.

A module holds the measures of one paper or of one question; `intervals` holds every interval.

    completeness(p_hat, to=wanted).mean()
    rate(right, groups=story)              # share, low, high, n
"""

MEASURES = ["completeness", "selectivity", "reliability"]  # of chapter 1, in its tables' order
