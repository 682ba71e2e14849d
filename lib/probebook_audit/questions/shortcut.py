"""Is the concept a shortcut? One rule for each source that may give the label without any state.

A rule is fitted on all items outside of the test and judged on the test items. Where it is wrong, a
probe that follows the source is wrong, too; where it is hardly ever wrong, nobody can tell the two
apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from probebook.base import to_numpy
from probebook.corpora.words import MARKS, NO_BLANKS, plain
from probebook.measures.intervals import contrasts, rate
from probebook_audit.case import Case, association, predict_by_rule
from probebook_audit.fitting import Fit
from probebook_audit.labelled import Labelled
from probebook_audit.layer import LayerResult, estimate_share

BAG = "bag of words"  # a reader of the concept, with which the probe is compared as well
FEWEST_CONFLICTS = 20  # items where a rule is wrong that tell the probe from it
LONGEST = 12  # characters of a run without blanks, on average, that counts as a word
OF_TEXT = 6  # sources in every text
COLUMNS = ["layer", "source", "association", "rule", "rule low", "rule high", "conflicts"]
COLUMNS += ["probe", "low", "high", "usual", "beats"]


def count_sources(data: Labelled) -> int:
    """How many sources the items have."""
    return len(data.keep) + len(data.known) + OF_TEXT * (data.text is not None)


def rule_hits(case: Case, fits: Sequence[Fit]) -> list[pd.DataFrame]:
    """For each seed: does a rule that knows one source give the label of the test items? A column
    for each source: properties to keep and what else is known, numbers of the text, the best single
    word, and the bag of words (`read_words`).

    Categories: the label that goes most often with the very value; NaN where it was never seen.
    Numbers (floats): a tree with two leaves for each class, whose borders are free. The bag of
    words, a reader like the probe, is fitted on the seed's part alone."""
    z, test, parts = to_numpy(case.z), to_numpy(case.test), [to_numpy(one.fit) for one in fits]
    sources = {name: to_numpy(values) for name, values in case.keep.items()} | dict(case.known)
    texts = [one.replace("[MASK]", " ") for one in case.text or []]
    if case.text is not None:
        sources |= count_text(texts)
    others = np.setdiff1d(np.arange(len(z)), test)
    x, words = read_words(texts, others)
    if words:
        best = _telling_word(x[others], z[others], case.k)
        sources[words[best]] = x[:, best].toarray().ravel().astype(int)
    told = {}
    for name, values in sources.items():
        number = values.dtype.kind == "f"
        predict = _predict_by_borders if number else predict_by_rule
        said = predict(values[others], z[others], case.k, values[test])
        told[name] = (said == z[test]).astype(float)
        if not number:
            told[name][~np.isin(values[test], values[others])] = np.nan
    table = pd.DataFrame(told, index=range(len(test)))
    if not words:
        return [table for _ in fits]
    models = [LogisticRegression(max_iter=300).fit(x[rows], z[rows]) for rows in parts]
    return [
        table.assign(**{BAG: model.predict(x[test]) == z[test]}).astype(float) for model in models
    ]


def count_text(texts: Sequence[str]) -> dict[str, np.ndarray]:
    """Numbers that can be counted in any text."""
    table = pd.Series(texts, dtype=str)
    letters = table.str.count(r"[^\W\d_]").clip(lower=1)
    counted = {
        "number of words": table.str.split().str.len(),
        "number of characters": table.str.len(),
        "punctuation marks": table.str.count(r"[^\w\s]"),
        "share of capitals": table.map(lambda one: sum(map(str.isupper, one))) / letters,
    }
    return {name: column.to_numpy(float) for name, column in counted.items()}


def read_words(texts: Sequence[str], others: np.ndarray) -> tuple[Any, list[str]]:
    """Which words each text has, [n, words], and their names; `others`: texts that give the words.
    In texts without blanks (a twentieth of them in such a script, or runs of more than 12
    characters on average) characters and pairs of characters count as well."""
    texts = [plain(one) for one in texts]
    whole = " ".join(texts)
    long_runs = len(whole) > LONGEST * len(whole.split())
    unspaced = sum(bool(re.search(f"[{NO_BLANKS}]", one)) for one in texts) > len(texts) / 20
    readers = {"word": CountVectorizer(token_pattern=rf"[\w{MARKS}]+")}
    if unspaced or long_runs or not re.search(r"\w", whole):
        readers["string"] = CountVectorizer(analyzer="char", ngram_range=(1, 2))
    parts, names = [csr_matrix((len(texts), 0), dtype=int)], []
    for what, reader in readers.items():
        reader.set_params(binary=True, max_features=20_000)
        try:
            reader.fit([texts[row] for row in others] if texts else [])
        except ValueError:  # there is none
            continue
        parts.append(reader.transform(texts))
        names += [f"the {what} {name!r}" for name in reader.get_feature_names_out()]
    return hstack(parts, "csr"), names


def _telling_word(x, z: np.ndarray, k: int) -> int:
    """The column of x [n, words] whose presence gives the label most often."""
    present = x.T @ np.eye(k)[z]
    absent = np.bincount(z, minlength=k) - present
    return int((present.max(1) + absent.max(1)).argmax())


def _predict_by_borders(
    source: np.ndarray, z: np.ndarray, k: int, values: np.ndarray
) -> np.ndarray:
    """The label on each side of borders that are drawn where they give it most often."""
    tree = DecisionTreeClassifier(max_leaf_nodes=2 * k, random_state=0)
    return tree.fit(source[:, None], z).predict(values[:, None])


def shortcut_table(layer: LayerResult) -> pd.DataFrame:
    """Every source that was tried; columns as in `AuditResult.shortcuts`. Right is what is
    right in most seeds; "rule" is the mean over them, with the commonest label where a rule says
    nothing."""
    case, rows = layer.case, []
    sources = [*layer.rules[0]]
    leads = {name: layer.rule_draws[name] - layer.rule_draws.usual for name in sources}
    beats = contrasts(leads).verdict > 0 if leads else {}
    groups = case.group[to_numpy(case.test)]
    probe = np.mean([one.probe for one in layer.hits], axis=0) > 0.5
    for source in sources:
        share = estimate_share(layer.rule_draws[source].to_numpy())
        wrong = np.mean([one[source] for one in layer.rules], axis=0) <= 0.5
        there = rate(probe[wrong], groups[wrong])
        kept = case.keep.get(source)
        rows.append(
            (case.layer, source, np.nan if kept is None else association(case.z, kept))
            + (share["value"], share["low"], share["high"], int(wrong.sum()))
            + (there.share, there.low, there.high)
            + (float(layer.rule_draws.usual.iloc[0]), int(beats[source]))
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def answer_shortcut(sources: pd.DataFrame, classes: int) -> dict:
    """What the sources say whose rule is significantly better than the majority: one that the probe
    follows is named; one that cannot be told from the probe is next, unless it is the bag of words,
    which reads the concept itself."""
    if sources.empty:
        return {"word": "not asked", "what": "", "control": ""}
    real = sources[sources.beats.astype(bool)]
    if real.empty:
        row = sources.loc[sources.rule.idxmax()]
        about: dict[str, Any] = {"word": "none known", "what": str(row.source)}
        figures = map(float, row[["rule", "rule low", "rule high", "usual"]])
        about |= dict(zip(("value", "low", "high", "control_value"), figures))
        return about | {"control": "the majority"}
    enough, chance = real.conflicts >= FEWEST_CONFLICTS, 1 / classes
    named = real[enough & (real.high < chance)]
    undecided = real[~enough | ((real.low <= chance) & (real.high >= chance))]
    nuisances = undecided[undecided.source != BAG]
    found = {"named": named, "cannot be told": nuisances, "open": undecided, "none found": real}
    word, rows = next((word, rows) for word, rows in found.items() if len(rows))
    by = ["low"] if word == "none found" else ["conflicts", "low"]
    row = rows.sort_values(by).iloc[0]
    what = ", ".join(rows.source) if word == "named" else str(row.source)
    about = {"word": word, "what": what, "control": "a rule that reads this alone"}
    about |= {"have": float(row.conflicts), "control_value": float(row.rule)}
    return about | ({"value": row.probe, "low": row.low, "high": row.high} if row.conflicts else {})
