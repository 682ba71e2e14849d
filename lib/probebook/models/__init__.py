"""Language models: load by name, embed texts at a layer and position, read and patch their predictions."""
from probebook.models.embedding import carry, embed, head_logits, patch, word_logits
from probebook.models.loading import Model, depth, load

__all__ = ["Model", "carry", "depth", "embed", "head_logits", "load", "patch", "word_logits"]
