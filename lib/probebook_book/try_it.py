"""What the page *Try it* needs in a reader's browser: the model, probes and edits, as scripts.

A page that is opened from a disk may read scripts and nothing else. So all numbers stand in the
strings of a few of them, seven bits a character, without loss: floats are cut into their bytes, the
lowest first, since the highest bytes of many numbers are alike and can be compressed.
`book/_static/pocket_model.js` reads them and computes."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from probebook.base import UserError, atomic_write, to_numpy
from probebook.corpora.agreement.lexicon import load_lexicon
from probebook.corpora.words import single_tokens
from probebook.models import Model
from probebook.probes.mlp import FittedMLP
from probebook_book import stills
from probebook_book.boxes import boxes, sentences
from probebook_chapters.causal_probing import Judges
from probebook_chapters.every_layer import METHODS, FittedLayer

PART = 7 * 150_000  # bytes of one script, before seven bits become a character
DOTS = 120  # states in a layer's picture


def write(folder: Path, layers: dict[int, FittedLayer]) -> None:
    """Write `model.js`, which describes the numbers, `part_NN.js`, which hold them, and what the
    book's boxes show without scripts (`stills`)."""
    lm = layers[1].s.lm
    if lm.net.config.model_type != "modernbert":
        raise UserError(f"{lm.name}: the page's script computes ModernBERT's layers only")
    halves = {
        name: weights.half()
        for name, weights in lm.net.state_dict().items()
        if name != "decoder.weight"
    }  # the embeddings, once more
    if any((halves[name].float() != lm.net.state_dict()[name]).any() for name in halves):
        raise UserError(f"{lm.name}: its weights are no float16 numbers")
    singles = {
        f"{layer}.{name}": part.float()
        for layer, at in layers.items()
        for name, part in _fitted_numbers(at).items()
    }
    planes = b"".join(_planes(list(group.values())) for group in (halves, singles))
    packed = zlib.compress(planes, 9)
    parts = [packed[i : i + PART] for i in range(0, len(packed), PART)]
    for i, part in enumerate(parts):
        with atomic_write(folder / f"part_{i:02}.js") as path:
            path.write_bytes(b"pocketModel.part(%d, `%s`);\n" % (i, _characters(part)))
    about = {
        "parts": [len(part) for part in parts],
        "halves": {name: list(part.shape) for name, part in halves.items()},
        "singles": {name: list(part.shape) for name, part in singles.items()},
        **_about(lm),
        "strengths": METHODS,
        "layers": {k: _judge_report(at) for k, at in layers.items()},
    }
    text = json.dumps(about, ensure_ascii=True, separators=(",", ":"))
    with atomic_write(folder / "model.js") as path:
        path.write_text(f"pocketModel.about({text});\n", encoding="ascii")
    for box in boxes():
        stills.write(folder, box, layers, about["nouns"], about["verbs"])


def _about(lm: Model) -> dict:
    """The model's settings, its vocabulary, and the words that a reader's sentence may hold."""
    config, words, ids = lm.net.config, load_lexicon(), lm.tokenizer.get_vocab()
    forms = {
        (singular, plural) for pack in words.predicates.values() for plural, singular, _ in pack
    }
    known = single_tokens({word for pair in forms for word in pair}, lm.tokenizer)
    return {
        "name": lm.name,
        "depth": lm.depth,
        "width": lm.width,
        "heads": config.num_attention_heads,
        "tokens": config.max_position_embeddings,
        "eps": config.norm_eps,
        "vocabulary": sorted(ids, key=ids.__getitem__),
        "theta": config.rope_parameters["full_attention"]["rope_theta"],
        "nouns": [[noun.singular, noun.plural] for noun in words.nouns]
        + [["cabinet", "cabinets"], ["teacher", "teachers"]],
        "verbs": sorted(pair for pair in forms if set(pair) <= set(known)),
        "sentences": sentences(),
    }


def _fitted_numbers(at: FittedLayer) -> dict[str, Tensor]:
    """All numbers that probes and edits of one layer need, by name."""
    probes = {f"linear.{noun}": probe for noun, probe in _by_noun(at.linear).items()}
    numbers = {
        name: torch.cat([probe.weight[1] - probe.weight[0], probe.bias.diff()])
        for name, probe in probes.items()
    }
    for noun, probe in {**_by_noun(at.oracle), "attacked": at.data.probe}.items():
        numbers |= _perceptron(f"perceptron.{noun}", probe)
    leace = at.fitted["LEACE"]
    return numbers | {
        "inlp": at.fitted["INLP"].basis.T,
        "alterrep": at.fitted["AlterRep"].inlp.basis.T,
        "leace": torch.cat([leace.left.T, leace.right.T, leace.mean[None]]),
        "shift": at.fitted["MeanShift"].shifts,
        "axes": at.axes.T,
        "sigma": torch.tensor([at.data.radius]),
        "cloud": _cloud(at),
    }


def _by_noun(judges: Judges) -> dict:
    return {"subject": judges.zc, "attractor": judges.ze}


def _perceptron(name: str, probe: FittedMLP) -> dict[str, Tensor]:
    """Weights [out, in + 1] of each layer with the bias as last column; the standardisation goes
    into the first, as when the library calls the probe."""
    weights, biases = [*probe.weights], [*probe.biases]
    weights[0] = weights[0] / probe.std[:, None]
    biases[0] = biases[0] - probe.mean @ weights[0]
    return {
        f"{name}.{i}": torch.cat([w.T, b[:, None]], 1)
        for i, (w, b) in enumerate(zip(weights, biases))
    }


def _cloud(at: FittedLayer) -> Tensor:
    """Test states on the layer's axes with their subject's number: [n, 3]."""
    rows = at.s.parts["test"][:DOTS]
    return torch.cat([at.s.h[rows] @ at.axes, at.s.zc[rows, None].float()], 1)


def _judge_report(at: FittedLayer) -> dict:
    """How well each probe of a layer does on uncorrelated sentences, and whether it can judge."""
    return {
        kind: {
            noun: {"accuracy": round(float(row.accuracy), 4), "usable": bool(row.usable)}
            for noun, (_, row) in zip(_by_noun(judges), judges.report.iterrows())
        }
        for kind, judges in (("linear", at.linear), ("perceptron", at.oracle))
    }


def _planes(tensors: list[Tensor]) -> bytes:
    """The first bytes of all numbers, then their second bytes, and so on (little endian)."""
    flat = np.concatenate([to_numpy(tensor).ravel() for tensor in tensors])
    return flat.view(np.uint8).reshape(len(flat), -1).T.tobytes()


def _characters(part: bytes) -> bytes:
    """Seven bits a character, as a template literal may hold them: 0 is written as 128."""
    bits = np.unpackbits(np.frombuffer(part, np.uint8))
    sevens = np.pad(bits, (0, -len(bits) % 7)).reshape(-1, 7)
    text = np.packbits(np.pad(sevens, ((0, 0), (1, 0))), axis=1).tobytes()
    for raw, escaped in (
        (b"\\", rb"\\"),
        (b"`", rb"\`"),
        (b"${", rb"\${"),
        (b"\r", rb"\r"),
        (b"\0", b"\xc2\x80"),
    ):
        text = text.replace(raw, escaped)
    return text
