"""Training: heads and classifiers (`finetune`), a model's own task continued (`cloze`), and what
every loop needs (`loop`). `probebook_training` trains the shipped language models with it."""
