"""Probing and intervening on language models: a thin library of methods and measures.

Rooms, from the data up: `corpora`, `models`, `probes`, `interventions`, `explainers`, `measures`,
`figures`.

    h = embed(texts, load("pocket-agreement"), layer=-1, at="[MASK]")     # hidden states [n, d]
    erased = LEACE().fit(h, z)(h)                                         # z can no longer be read
"""
