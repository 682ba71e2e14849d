"""Language models: load them by name, embed texts, fill blanks, and patch their predictions.

`readers/` answer questions about stories, `training/` trains small models, `twins` makes random
and corrupted copies, and `cache` stores whatever was fitted or computed.

    h = embed(texts, load("pocket-english"), layer=-1, at="[MASK]")
"""

from probebook.models.embedding import embed, embed_layers, head_logits, lens_logits, word_logits
from probebook.models.fill import PROMPTS, Filled, Prompt, fill, pieces
from probebook.models.loading import Model, depth, load
from probebook.models.patching import carry, patch
from probebook.models.server import Server
