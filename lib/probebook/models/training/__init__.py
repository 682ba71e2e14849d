"""Training: heads, classifiers and a model's own task continued (`finetune`), and what every loop
needs (`loop`). `probebook_training` trains the shipped language models with it."""
