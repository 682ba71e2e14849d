"""Raw model outputs released with McMilin's paper, as flat tables.

They have no licence and are no part of the book. They are read from a folder under PROBEBOOK_DATA,
and there is no address to fetch them from:

- `winogender_long.csv(.gz)`, `simplified_long.csv(.gz)`: model, prompt (empty or P1 … P3),
  occupation, participant_or_gender, template_answer, gender (f, m, n), year, prob_pct_normalised
  (share in percent, one decimal)
- `mgc_long.csv(.gz)`: model, prompt (empty or A … C), injected (time, place), value, gender,
  mean_prob_pct (mean of the 60 texts of a value, in percent, not normalised)
- `processed/MODEL_delta_stats.csv`, optional: the paper's own metric of each text, for some models
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from probebook.base import UserError, check_choice

MODELS = {  # as table 3 calls them
    "bert-base-uncased": "BERT-base",
    "bert-large-uncased": "BERT-large",
    "roberta-base": "RoBERTa-base",
    "roberta-large": "RoBERTa-large",
    "facebook_bart-base": "BART-base",
    "facebook_bart-large": "BART-large",
    "google_ul2": "UL2-20B-gen",
    "google_flan-ul2": "Flan-UL2-20B",
    "davinci": "GPT-3",
    "text-davinci-002": "GPT-3.5-SFT",
    "text-davinci-003": "GPT-3.5-RLHF",
}
GENDERS = {"f": "female", "m": "male", "n": "neutral"}
TEXT = ["model", "prompt", "occupation", "participant", "template"]
_SHARES = ["participant_or_gender", "template_answer", "gender", "year", "prob_pct_normalised"]
COLUMNS = {
    "winogender": _SHARES,
    "simplified": _SHARES,
    "mgc": ["injected", "value", "gender", "mean_prob_pct"],
}


def _root(folder: str) -> Path:
    return Path(os.environ.get("PROBEBOOK_DATA") or ".") / folder


def _read(folder: str, name: str) -> pd.DataFrame:
    root = _root(folder)
    paths = [root / f"{name}_long.{end}" for end in ("csv", "csv.gz")]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise UserError(
            f"no {name}_long.csv(.gz) in {root}: put the paper's raw outputs there, or "
            "set PROBEBOOK_DATA"
        )
    table = pd.read_csv(path)
    missing = [column for column in ["model", "prompt", *COLUMNS[name]] if column not in table]
    if missing:
        raise UserError(
            f"{path}: no column {missing[0]!r}: needed are model, prompt, "
            f"{', '.join(COLUMNS[name])}"
        )
    table = table[table.model.isin(MODELS)].assign(prompt=lambda t: t.prompt.fillna(""))
    return table.assign(model=table.model.map(MODELS))


def shares(folder: str, texts: str) -> pd.DataFrame:
    """Shares of the genders in percent, one row per text and prompt.

    Index: model, prompt, occupation, participant, template (1: the pronoun is the participant's).
    Columns: (gender, year). `texts`: "winogender" (480 per model and prompt; participant man,
    woman, someone or other) or "simplified" (144; female, male, unspecified). UserError: another
    name, or a file or column is missing.
    """
    table = _read(folder, check_choice(texts, "set of texts", ("winogender", "simplified")))
    table = table.rename(
        columns={"participant_or_gender": "participant", "template_answer": "template"}
    )
    if texts == "winogender":
        known = table.participant.isin(["man", "woman", "someone"])
        table["participant"] = table.participant.where(known, "other")
    table["gender"] = table.gender.map(GENDERS)
    wide = table.pivot(index=TEXT, columns=["gender", "year"], values="prob_pct_normalised")
    return wide.sort_index(axis=1).reindex(list(MODELS.values()), level="model")


def unspecified(index: pd.MultiIndex) -> np.ndarray:
    """Whether a text of `shares` neither means a man or woman nor says male or female, bool [n]."""
    participant, template = (index.get_level_values(name) for name in ("participant", "template"))
    meant = participant.isin(["man", "woman"]) & (template == 1)
    return ~np.asarray(meant | participant.isin(["female", "male"]))


def masses(folder: str) -> pd.DataFrame:
    """Mean gender masses of the MGC texts in percent, not normalised.

    Columns: model, prompt, kind (time, place), w, w_index, female, male, neutral. UserError: a file
    or column is missing.
    """
    table = _read(folder, "mgc").rename(columns={"injected": "kind", "value": "w"})
    keys = ["model", "prompt", "kind"]
    table["w_index"] = table.groupby([*keys, "gender"]).cumcount()
    wide = table.pivot(index=[*keys, "w", "w_index"], columns="gender", values="mean_prob_pct")
    wide = wide[list(GENDERS.values())].rename_axis(columns=None).reset_index()
    return wide.sort_values([*keys, "w_index"])


def processed(folder: str) -> pd.Series:
    """The paper's own metric, for the models whose files are at hand; empty without files.

    Index: model, occupation, participant, template. It is older than table 3: it averages two years
    at each end, where the table takes one.
    """
    found = {}
    for name in MODELS.values():
        path = _root(folder) / "processed" / f"{name}_delta_stats.csv"
        if path.is_file():
            table = pd.read_csv(path, index_col=0).rename_axis(index="occupation").stack()
            for (occupation, text), value in table.items():
                participant, _, template = text.rpartition("_")
                found[name, occupation, participant, int(template)] = value
    levels = ["model", "occupation", "participant", "template"]
    arrays: list[Sequence] = list(zip(*found))
    if not arrays:
        arrays = [[] for _ in levels]
    index = pd.MultiIndex.from_arrays(arrays, names=levels)
    return pd.Series(list(found.values()), index, dtype=float)
