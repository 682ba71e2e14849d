"""What the pages of one chapter share: worlds, states, judges, sweeps, plots (`figures`).

One module per chapter, and one per world that only a chapter draws from.

A chapter's module uses the rooms below it and never another chapter's.

    s = prepare("pocket-agreement", n=16_000)        # causal_probing: sentences, states, split
    sweep(s, {"mlp": oracles(s)}, edits)             # one row per oracle, method and strength
"""
