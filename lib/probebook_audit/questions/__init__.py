"""One module for each question of the audit that needs figures.

Each measures every item (arrays or tables [items]) from a case and what a seed fitted, and answers
from all draws of a layer: a word, what it speaks of, its control, and the figures.

    readable.reading(case, fit)                     # is each reader right on the test items?
    readable.answer(layer, reads)                   # {"word": "readable", "value": .93, …}
"""
