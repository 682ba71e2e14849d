"""Chapter 4's experiments (McMilin, § 4, § 5): what a model puts into dated and placed texts, and her table 3.

Masses and shares are in percent, [n, 3]: female, male, neutral (`measures.specification`)."""
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from scipy.stats import rankdata
from sklearn.metrics import roc_curve

from probebook.base import UserError
from probebook.corpora import english, winogender
from probebook.corpora.biographies import GUESTS, JOBS, TOLD
from probebook.corpora.released_outputs import GENDERS, unspecified
from probebook.measures.specification import LISTS, area, gender_mass, scores, shares, specification
from probebook.models.decoding import Filled
from probebook.models.embedding import embed, head_logits
from probebook.models.fill import Prompt, fill
from probebook.models.loading import Model, load
from probebook.models.server import Server
from probebook.models.twins import encoder

SETS = ("simplified", "persons", "winogender")
WORDS = {word: gender for gender, words in LISTS.items() for word in words}
WORD = re.compile(rf"\b({'|'.join(WORDS)})\b", re.IGNORECASE)
Outputs = Mapping[str, pd.DataFrame]
NAMES = list(GENDERS.values())
YEAR = re.compile(r"\b(1[89]\d\d|20[01]\d|2020)\b")


def masses(texts: Sequence[str], model: str | Model | Server, prompt: str | Prompt | None = None,
           k: int = 5) -> np.ndarray:
    """Gender mass [n, 3] of the k best tokens at each text's [MASK] (appendix G; the paper has k = 5).

    `model`: a name, "random:NAME" (the same network before any training), a Model or a Server. A left-to-right model
    without a prompt is read at the blank, from the words before it alone: the book's reading, not the paper's."""
    texts = list(texts)
    if isinstance(model, str):
        model = encoder(model) if model.startswith("random:") else load(model, dtype=torch.float32)
    if prompt is None and model.kind == "causal":
        return gender_mass(_next(texts, model, k))
    return gender_mass(fill(texts, model, prompt, k))


def dated(texts: Sequence[str], year: int) -> list[str]:
    """“In {year}: ” before each text (§ 5.1)."""
    return [f"In {year}: {text}" for text in texts]


def shares_at(texts: Sequence[str], model: str | Model | Server, years: Sequence[int] = (1901, 2016),
              prompt: str | Prompt | None = None) -> np.ndarray:
    """Shares of female, male and neutral, percent, [years, n, 3]; NaN where no listed word is among the five best."""
    if len(years) < 2:
        raise UserError(f"years = {list(years)}: at least two, the earliest first")
    return np.stack([shares(masses(dated(texts, year), model, prompt)) for year in years])


def two_persons() -> pd.DataFrame:
    """576 texts of two persons in the manner of Winogender, of which 192 are well specified; columns as there.

    “The baker told the woman that [MASK] had paid for it.” 24 occupations × a man, a woman, someone × 4 clauses that
    fit the occupation and 4 that fit the participant. The words are those of `corpora.biographies`."""
    rows = [(f"The {job} told {guest} that [MASK] {clause}.", job, guest.removeprefix("the "), who,
             who == "participant" and guest != "someone")
            for job in JOBS for guest in GUESTS for who, clauses in TOLD.items() for clause in clauses]
    return pd.DataFrame(rows, columns=["text", "occupation", "participant", "coreferent", "well_specified"])


def task_texts(name: str) -> pd.DataFrame:
    """Texts with and without the pronoun's gender: "simplified", "persons" (`two_persons`) or "winogender"."""
    if name not in SETS:
        raise UserError(f"texts {name!r}: {', '.join(SETS)}")
    return {"simplified": winogender.simplified, "persons": two_persons, "winogender": winogender.extended}[name]()


def _next(texts, model, k):
    """The best tokens after the words that stand before each blank, as `fill` gives them."""
    best = head_logits(embed(texts, model), model).softmax(1).topk(k)
    word = model.tokenizer.decode
    return [Filled.of([(word([ids[0]]), [(word([i]), p) for i, p in zip(ids, probs)])])
            for ids, probs in zip(best.indices.tolist(), best.values.tolist())]


def year_counts(shards: int = 8, width: int = 20) -> pd.DataFrame:
    """What the pocket models' text says of years: sentences that name one of 1801 … 2020, and listed pronouns in them.

    Columns from (first year of a span of `width`), sentences, female, male, neutral. A sentence that names years of
    several spans counts in each; numbers such as “2000 men” are counted too. `shards`: the first of the 8 parts."""
    counts = Counter()
    for paragraph in english.paragraphs(range(shards)):
        if not YEAR.search(paragraph):
            continue
        for sentence in re.split(r"(?<=[.!?]) ", paragraph):
            for span in {(int(year) - 1) // width * width + 1 for year in YEAR.findall(sentence)}:
                counts[span, "sentences"] += 1
                counts.update((span, WORDS[word.lower()]) for word in WORD.findall(sentence))
    spans = pd.RangeIndex(1801, 2021, width, name="from")
    table = pd.Series(counts, dtype=int).unstack(fill_value=0) if counts else pd.DataFrame()
    return table.reindex(index=spans, columns=["sentences", *LISTS], fill_value=0).reset_index()


# --- Table 3 from the paper's raw outputs: `outputs` are the shares of `corpora.released_outputs`, by set of texts.
# Metrics are in percentage points, rounded to six decimals: the shares have one, and a difference of .5 is to be .5.

def metrics(wide: pd.DataFrame, years: int = 1) -> pd.DataFrame:
    """Metric of each text by each gender's share, [texts, 3]: the means of `years` years at either end, apart."""
    def of(gender):
        found = wide[gender]
        return specification(found.iloc[:, -years:].mean(axis=1), found.iloc[:, :years].mean(axis=1)).round(6)
    return pd.DataFrame({gender: of(gender) for gender in NAMES}, wide.index)


def with_prompt_a(found: pd.DataFrame | pd.Series):
    """Rows made with the paper's prompt A (in the files P3), or without a prompt; the index loses its level prompt."""
    return found[found.index.get_level_values("prompt").isin(["", "P3"])].droplevel("prompt")


def _parts(outputs):
    """Texts, model, prompt, metrics, unspecified."""
    for texts, wide in outputs.items():
        for (model, prompt), part in metrics(wide).groupby(["model", "prompt"], sort=False):
            yield {"texts": texts, "model": model, "prompt": prompt or "none"}, part, unspecified(part.index)


def _female(outputs):
    """Texts and model, and the female metric of each text, of the rows with prompt A or none."""
    for texts, wide in outputs.items():
        for model, one in with_prompt_a(metrics(wide)["female"]).groupby("model", sort=False):
            yield {"texts": texts, "model": model}, one


def rules(outputs: Outputs, threshold: float = .5) -> pd.DataFrame:
    """tpr, tnr and balanced accuracy by the share of each gender: texts, model, prompt, gender, and these."""
    return pd.DataFrame([{**name, "gender": gender, **scores(part[gender], free, threshold)._asdict()}
                         for name, part, free in _parts(outputs) for gender in NAMES])


def bounds(outputs: Outputs, threshold: float = .5) -> pd.DataFrame:
    """What tpr and tnr can be if each text has the metric of some gender, it is unknown which.

    Columns texts, model, prompt, rate, `least` (right by all three), `most` (by any), `mixed` (mean of the three)."""
    rows = []
    for name, part, free in _parts(outputs):
        above = part.to_numpy() > threshold
        for rate, right in (("tpr", above[free]), ("tnr", ~above[~free])):
            rows.append({**name, "rate": rate, "least": right.all(1).mean(), "mixed": right.mean(),
                         "most": right.any(1).mean()})
    return pd.DataFrame(rows)


def regenerated(wide: pd.DataFrame, older: pd.Series, threshold: float = .5) -> pd.DataFrame | None:
    """Rates if each text has the gender whose two-year metric is the `older` value; None without such values.

    Per model: texts that one gender `alone` explains, `several`, `none`; the share `none, others` that the outputs of
    another model do not explain (control); least and most of each rate, as several genders may explain a value."""
    if older.empty:
        return None
    rows, one, two = [], with_prompt_a(metrics(wide)), with_prompt_a(metrics(wide, 2))
    for model in older.index.unique("model"):
        equal = {name: (part.droplevel("model").sub(older[model], axis=0).abs() < .006)
                 for name, part in two.groupby("model", sort=False)}
        won = equal.pop(model)
        row = {f"{g} alone": (won[g] & (won.sum(axis=1) == 1)).sum() for g in NAMES}
        row |= {"several": (won.sum(axis=1) > 1).sum(), "none": (~won.any(axis=1)).sum(),
                "none, others": np.mean([~other.any(axis=1) for other in equal.values()]) if equal else 1.0}
        won[~won.any(axis=1)] = True                                   # explained by none: any may have been last
        above, free = one.loc[model].reindex(won.index) > threshold, unspecified(won.index)
        sure, may = (above | ~won).all(axis=1), (above & won).any(axis=1)
        rows.append({"model": model, **row, "tpr least": sure[free].mean(), "tpr most": may[free].mean(),
                     "tnr least": (~may[~free]).mean(), "tnr most": (~sure[~free]).mean()})
    return pd.DataFrame(rows)


def printed_metrics(wide: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """How many metrics of table 2 (one occupation, one decimal) each gender's share gives, with one and two years."""
    printed, rows = printed.assign(participant=printed.participant.replace("patient", "other")), []
    texts = list(zip(printed.model, printed.participant, (printed.coreferent == "participant").astype(int)))
    for years in (1, 2):
        part = with_prompt_a(metrics(wide, years)).xs("doctor", level="occupation")
        near = part.loc[texts].sub(printed.metric.to_numpy(), axis=0).abs() < .0501
        rows += [{"gender": g, "years": years, "equal": near[g].sum()} for g in NAMES]
        rows.append({"gender": "any", "years": years, "equal": near.any(axis=1).sum()})
    return pd.DataFrame(rows)


def areas(outputs: Outputs, draws: int = 1000, shuffles: int = 500, seed: int = 0) -> pd.DataFrame:
    """Area under the ROC curve of the female metric, its interval over occupations, and areas of shuffled labels.

    Columns texts, model, area, low, high; shuffled, least, most: mean and 95 % range with labels shuffled within the
    occupations; older rule: balanced accuracy of two-year means at the threshold 1."""
    rows, older = [], {texts: with_prompt_a(metrics(wide, 2)["female"]) for texts, wide in outputs.items()}
    for name, one in _female(outputs):
        one, rng = one.sort_index(level="occupation"), np.random.default_rng(seed)
        free, jobs = unspecified(one.index), one.index.get_level_values("occupation")
        ranks, folded = rankdata(one), free.reshape(jobs.nunique(), -1)
        null = [_area(ranks, rng.permuted(folded, axis=1).ravel()) for _ in range(shuffles)]
        least, most = np.percentile(null, [2.5, 97.5])
        score, low, high = area(one, free, jobs, draws, seed)
        rows.append({**name, "area": score, "low": low, "high": high, "shuffled": np.mean(null), "least": least,
                     "most": most, "older rule": scores(older[name["texts"]][one.index], free, 1).balanced})
    return pd.DataFrame(rows)


def _area(ranks, free):
    """The area from ranks (Mann and Whitney's count)."""
    return (ranks[free].mean() - (free.sum() + 1) / 2) / (~free).sum()


def thresholds(outputs: Outputs, tried) -> pd.DataFrame:
    """Balanced accuracy of the female metric at each threshold: texts, model, threshold, balanced."""
    return pd.DataFrame([{**name, "threshold": t, "balanced": scores(one, unspecified(one.index), t).balanced}
                         for name, one in _female(outputs) for t in tried])


def curves(outputs: Outputs, alarms) -> pd.DataFrame:
    """ROC curve of the female metric: share of unspecified texts found at each share of false `alarms`.

    Columns texts, model, false alarms, found; straight between the curve's points."""
    rows = []
    for name, one in _female(outputs):
        alarm, found, _ = roc_curve(unspecified(one.index), one, drop_intermediate=False)
        rows += [{**name, "false alarms": x, "found": y} for x, y in zip(alarms, np.interp(alarms, alarm, found))]
    return pd.DataFrame(rows)
