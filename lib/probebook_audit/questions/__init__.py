"""The audit's questions: each scores every test item and answers from the draws of a layer.

    hits = readability.reader_hits(case, fit)       # is each reader right on the test items?
    readability.answer_readable(layer, leads)       # {"word": "readable", "value": .93, …}

An answer is a word of `verdicts.yaml`, what it speaks of, its control, and the figures.
"""
