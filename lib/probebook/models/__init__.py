"""Language models: load by name, embed texts at a layer and position, fill blanks, read and patch predictions."""
from probebook.models.embedding import carry, embed, embed_layers, head_logits, patch, word_logits
from probebook.models.fill import PROMPTS, Filled, Prompt, fill, pieces
from probebook.models.loading import Model, depth, load
from probebook.models.server import Server

__all__ = ["PROMPTS", "Filled", "Model", "Prompt", "Server", "carry", "depth", "embed", "embed_layers", "fill",
           "head_logits", "load", "patch", "pieces", "word_logits"]
