"""Training: small language models from text, heads and classifiers on top of them, checkpoints.

`pretrain` and `finetune` are the two loops, `cloze` continues a model's own task, `text` makes
rows of tokens, `checkpoint` lets a killed run resume, and `recipes` trains the shipped models:

    recipes.train("pocket-english")
"""
