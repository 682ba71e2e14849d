"""What the pages of one chapter share: data, states, judges, sweeps. One module per chapter.

A chapter's module uses the rooms below it and never another chapter's.

    s = prepare("pocket-agreement", n=16_000)        # causal_probing: sentences, states, split
    sweep(s, {"mlp": oracles(s)}, edits)             # one row per oracle, method and strength
"""
