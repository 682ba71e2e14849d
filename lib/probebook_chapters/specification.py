"""Run chapter 4's experiments: fill dated and placed texts, and audit table 3.

McMilin, § 4 and § 5. Masses and shares are in percent, [n, 3]: female, male, neutral
(`measures.specification`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd
import torch
from scipy.stats import rankdata
from sklearn.metrics import roc_curve

from probebook.base import UserError, check_choice
from probebook.corpora import english, winogender
from probebook.corpora.biographies import CLAUSES, GUESTS, JOBS
from probebook.measures.intervals import percentiles
from probebook.measures.specification import (
    LISTS,
    area,
    gender_mass,
    scores,
    shares,
    specification,
)
from probebook.models.decoding import Filled
from probebook.models.fill import Prompt, fill
from probebook.models.loading import Model, load
from probebook.models.server import Server
from probebook.models.twins import encoder
from probebook_chapters.released_outputs import GENDERS, unspecified

SETS = ("simplified", "persons", "winogender")
WORDS = {word: gender for gender, words in LISTS.items() for word in words}
WORD = re.compile(rf"\b({'|'.join(WORDS)})\b", re.IGNORECASE)
Outputs = Mapping[str, pd.DataFrame]
NAMES = list(GENDERS.values())
YEAR = re.compile(r"\b(1[89]\d\d|20[01]\d|2020)\b")


def fill_blanks(
    texts: Sequence[str],
    model: str | Model | Server,
    prompt: str | Prompt | None = None,
    k: int = 5,
) -> list[Filled]:
    """Fill each text's [MASK] with the k best tokens, in the form of `models.fill` (appendix F).

    A masked model fills the blank itself and gets no prompt. A left-to-right model or a server
    without a prompt is read at the blank, from the words before it alone; this is the book's
    reading, not the paper's.

    `model`: a name, "random:NAME" (the same network before any training), a Model or a Server, of
    which `k` is at most 5. UserError: as by `fill` and `Server.complete`."""
    texts = list(texts)
    if isinstance(model, str):
        untrained = model.startswith("random:")
        model = encoder(model) if untrained else load(model, dtype=torch.float32)
    if model.kind in ("masked", "encoder"):
        prompt = None
    if prompt is None and isinstance(model, Server):
        return model.complete([text.split("[MASK]")[0].rstrip() for text in texts], k, steps=1)
    return fill(texts, model, prompt, k)


def masses(
    texts: Sequence[str],
    model: str | Model | Server,
    prompt: str | Prompt | None = None,
    k: int = 5,
) -> np.ndarray:
    """Gender mass [n, 3] of the k best tokens at each text's [MASK] (appendix G; the paper has k =
    5). `model` and `prompt`: see `fill_blanks`."""
    return gender_mass(fill_blanks(texts, model, prompt, k))


def add_year(texts: Sequence[str], year: int) -> list[str]:
    """“In {year}: ” before each text (§ 5.1)."""
    return [f"In {year}: {text}" for text in texts]


def shares_at(
    texts: Sequence[str],
    model: str | Model | Server,
    years: Sequence[int] = (1901, 2016),
    prompt: str | Prompt | None = None,
) -> np.ndarray:
    """Shares of female, male and neutral in percent, [years, n, 3].

    NaN where none of the five best tokens is in a list."""
    if len(years) < 2:
        raise UserError(f"years = {list(years)}: at least two, the earliest first")
    dated = [text for year in years for text in add_year(texts, year)]
    return shares(masses(dated, model, prompt)).reshape(len(years), len(texts), 3)


def two_persons() -> pd.DataFrame:
    """576 texts of two persons in the manner of Winogender, of which 192 are well specified.

    “The baker told the woman that [MASK] had paid for it.” 24 occupations × a man, a woman, someone
    × 4 clauses that fit the occupation and 4 that fit the participant, in the words of
    `corpora.biographies`. Columns as in `winogender.extended`."""
    rows = []
    for job, guest, (who, clauses) in product(JOBS, GUESTS, CLAUSES.items()):
        specified = who == "participant" and guest != "someone"
        about = (job, guest.removeprefix("the "), who, specified)
        rows += [(f"The {job} told {guest} that [MASK] {clause}.", *about) for clause in clauses]
    columns = ["text", "occupation", "participant", "coreferent", "well_specified"]
    return pd.DataFrame(rows, columns=columns)


def task_texts(name: str) -> pd.DataFrame:
    """Texts that do or do not specify the pronoun's gender.

    "simplified", "persons" (`two_persons`) or "winogender"."""
    makers = winogender.simplified, two_persons, winogender.extended
    return makers[SETS.index(check_choice(name, "set of texts", SETS))]()


def year_counts(shards: int = 8) -> pd.DataFrame:
    """Sentences of the pocket models' text that name a year 1801 … 2020, and their listed pronouns.

    Columns from (first year of a span of 20), sentences, female, male, neutral. A sentence
    with years of several spans counts in each; numbers such as “2000 men” count as years. `shards`:
    how many of the text's 8 parts to read."""
    counts: Counter[tuple[int, str]] = Counter()
    for paragraph in english.paragraphs(range(shards)):
        if not YEAR.search(paragraph):
            continue
        for sentence in re.split(r"(?<=[.!?]) ", paragraph):
            for span in {(int(year) - 1) // 20 * 20 + 1 for year in YEAR.findall(sentence)}:
                counts[span, "sentences"] += 1
                counts.update((span, WORDS[word.lower()]) for word in WORD.findall(sentence))
    spans = pd.RangeIndex(1801, 2021, 20, name="from")
    table = pd.Series(counts, dtype=int).unstack(fill_value=0) if counts else pd.DataFrame()
    columns = ["sentences", *LISTS]
    return table.reindex(index=spans, columns=columns, fill_value=0).reset_index()


# --- Table 3 from the paper's raw outputs. `outputs` maps a set of texts to its shares, as
# `released_outputs` gives them. Metrics are in percentage points and rounded to six
# decimals: the shares have one decimal, and a difference of .5 must be exactly .5.


def metrics(wide: pd.DataFrame, years: int = 1) -> pd.DataFrame:
    """Metric of each text by each gender's share, [texts, 3].

    It is the distance between the means of the first and of the last `years` years."""
    distances = {}
    for gender in NAMES:
        late = wide[gender].iloc[:, -years:].mean(axis=1)
        early = wide[gender].iloc[:, :years].mean(axis=1)
        distances[gender] = specification(late, early).round(6)
    return pd.DataFrame(distances, wide.index)


def with_prompt_a(table: pd.DataFrame | pd.Series) -> pd.DataFrame | pd.Series:
    """Rows made with the paper's prompt A (P3 in the files) or without a prompt.

    The index loses its level prompt."""
    return table[table.index.get_level_values("prompt").isin(["", "P3"])].droplevel("prompt")


def _parts(outputs: Outputs) -> Iterator[tuple[dict[str, str], pd.DataFrame, np.ndarray]]:
    """(texts, model, prompt), their metrics, and which texts are unspecified."""
    for texts, wide in outputs.items():
        for (model, prompt), part in metrics(wide).groupby(["model", "prompt"], sort=False):
            name = {"texts": texts, "model": model, "prompt": prompt or "none"}
            yield name, part, unspecified(part.index)


def _female(outputs: Outputs) -> Iterator[tuple[dict[str, str], pd.Series]]:
    """(texts, model) and the female metric of each text, with prompt A or none."""
    for texts, wide in outputs.items():
        female = with_prompt_a(metrics(wide)["female"])
        for model, one in female.groupby("model", sort=False):
            yield {"texts": texts, "model": model}, one


def rules(outputs: Outputs, threshold: float = 0.5) -> pd.DataFrame:
    """tpr, tnr and balanced accuracy by the share of each gender, per texts, model and prompt."""
    rows = []
    for name, part, free in _parts(outputs):
        rows += [
            {**name, "gender": gender, **scores(part[gender], free, threshold)._asdict()}
            for gender in NAMES
        ]
    return pd.DataFrame(rows)


def bounds(outputs: Outputs, threshold: float = 0.5) -> pd.DataFrame:
    """The possible tpr and tnr if each text has the metric of some gender, but which is unknown.

    Columns texts, model, prompt, rate, least (right by all three genders), mixed (the mean of the
    three), most (right by any)."""
    rows = []
    for name, part, free in _parts(outputs):
        above = part.to_numpy() > threshold
        for rate, right in (("tpr", above[free]), ("tnr", ~above[~free])):
            rows.append(
                {
                    **name,
                    "rate": rate,
                    "least": right.all(1).mean(),
                    "mixed": right.mean(),
                    "most": right.any(1).mean(),
                }
            )
    return pd.DataFrame(rows)


def rates_from_older_values(
    wide: pd.DataFrame, older: pd.Series, threshold: float = 0.5
) -> pd.DataFrame | None:
    """Rates if each text has the gender whose two-year metric is the `older` value.

    None without such values. One row per model:

    - "female alone" …: texts whose value one gender alone explains; several, none: texts explained
      by more than one, or by no gender
    - "none, others": share of texts that the outputs of another model do not explain (the control)
    - tpr least … tnr most: bounds of each rate, since several genders may explain a value"""
    if older.empty:
        return None
    rows, one, two = [], with_prompt_a(metrics(wide)), with_prompt_a(metrics(wide, 2))
    for model in older.index.unique("model"):
        equal = {
            name: part.droplevel("model").sub(older[model], axis=0).abs() < 0.006
            for name, part in two.groupby("model", sort=False)
        }
        won = equal.pop(model)
        row = {f"{g} alone": (won[g] & (won.sum(axis=1) == 1)).sum() for g in NAMES}
        missed = [~other.any(axis=1) for other in equal.values()]
        row |= {
            "several": (won.sum(axis=1) > 1).sum(),
            "none": (~won.any(axis=1)).sum(),
            "none, others": np.mean(missed) if missed else 1.0,
        }
        won[~won.any(axis=1)] = True  # explained by none: it may be any gender
        above, free = one.loc[model].reindex(won.index) > threshold, unspecified(won.index)
        sure, may = (above | ~won).all(axis=1), (above & won).any(axis=1)
        rows.append(
            {
                "model": model,
                **row,
                "tpr least": sure[free].mean(),
                "tpr most": may[free].mean(),
                "tnr least": (~may[~free]).mean(),
                "tnr most": (~sure[~free]).mean(),
            }
        )
    return pd.DataFrame(rows)


def printed_metrics(wide: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """How many metrics of table 2 (one occupation, one decimal) each gender's share reproduces.

    Columns gender, years (averaged at either end: one or two), equal."""
    participants = printed.participant.replace("patient", "other")
    templates = (printed.coreferent == "participant").astype(int)
    rows, texts = [], list(zip(printed.model, participants, templates))
    for years in (1, 2):
        part = with_prompt_a(metrics(wide, years)).xs("doctor", level="occupation")
        near = part.loc[texts].sub(printed.metric.to_numpy(), axis=0).abs() < 0.0501
        rows += [{"gender": g, "years": years, "equal": near[g].sum()} for g in NAMES]
        rows.append({"gender": "any", "years": years, "equal": near.any(axis=1).sum()})
    return pd.DataFrame(rows)


def areas(outputs: Outputs, draws: int = 1000, shuffles: int = 500, seed: int = 0) -> pd.DataFrame:
    """Area under the ROC curve of the female metric, per texts and model.

    - area, low, high: the area and its interval over occupations
    - shuffled, least, most: mean and 95 % range with labels shuffled within the occupations
    - older rule: balanced accuracy of two-year means at the threshold 1"""
    older = {texts: with_prompt_a(metrics(wide, 2)["female"]) for texts, wide in outputs.items()}
    rows = []
    for name, one in _female(outputs):
        one, rng = one.sort_index(level="occupation"), np.random.default_rng(seed)
        free, jobs = unspecified(one.index), one.index.get_level_values("occupation")
        ranks, folded = rankdata(one), free.reshape(jobs.nunique(), -1)
        null = [_area(ranks, rng.permuted(folded, axis=1).ravel()) for _ in range(shuffles)]
        least, most = percentiles(null)
        score, low, high = area(one, free, jobs, draws, seed)
        rule = scores(older[name["texts"]][one.index], free, 1).balanced
        rows.append(
            {
                **name,
                "area": score,
                "low": low,
                "high": high,
                "shuffled": np.mean(null),
                "least": least,
                "most": most,
                "older rule": rule,
            }
        )
    return pd.DataFrame(rows)


def _area(ranks: np.ndarray, free: np.ndarray) -> float:
    """The area from ranks (Mann and Whitney's count)."""
    return (ranks[free].mean() - (free.sum() + 1) / 2) / (~free).sum()


def thresholds(outputs: Outputs, levels: Sequence[float]) -> pd.DataFrame:
    """Balanced accuracy of the female metric at each threshold: texts, model, threshold,
    balanced."""
    rows = []
    for name, one in _female(outputs):
        free = unspecified(one.index)
        rows += [
            {**name, "threshold": t, "balanced": scores(one, free, t).balanced} for t in levels
        ]
    return pd.DataFrame(rows)


def roc_curves(outputs: Outputs, alarms: Sequence[float]) -> pd.DataFrame:
    """ROC curve of the female metric: share of unspecified texts found at each share of `alarms`.

    Columns texts, model, false alarms, found; linear between the curve's points."""
    rows = []
    for name, one in _female(outputs):
        alarm, hits, _ = roc_curve(unspecified(one.index), one, drop_intermediate=False)
        at = np.interp(alarms, alarm, hits)
        rows += [{**name, "false alarms": x, "found": y} for x, y in zip(alarms, at)]
    return pd.DataFrame(rows)
