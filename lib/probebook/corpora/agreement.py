"""Subject–verb agreement: generated sentences and their true counterfactuals, natural sentences, splits.

Every table has the columns `text` (with `[MASK]` at the verb), `zc` (number of the subject), `ze` (number of the
prepositional object right before the verb), both 0 Sg, 1 Pl, −1 none; `verb` (right here) and `other_verb`; `subject`
and `attractor` (lemmas), `subject_flipped` and `attractor_flipped` (the sentence with only that noun's number changed),
`group` (the part of the split that a generated sentence belongs to). What is not known is "" or −1.
"""
from __future__ import annotations

import csv
import random
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pandas as pd
from datasets import Dataset

from probebook.base import UserError
from probebook.corpora import agreement_lexicon as lexicon
from probebook.corpora.agreement_lexicon import Noun
from probebook.corpora.fetch import fetch

COLUMNS = ["text", "zc", "ze", "verb", "other_verb", "subject", "attractor", "subject_flipped", "attractor_flipped",
           "group"]
GROUPS = ["oracle", "intervention", "test"]
SHARES = [.4, .4, .2]
VALID = .05                                     # of the first two groups
CONTINGENCY = [[176, 31, 5], [78, 10, 4]]       # thousands; rows zc Sg, Pl; columns ze none, Sg, Pl (Canby et al., §4)


def apportion(n: int, weights) -> np.ndarray:
    """Whole numbers that add up to `n` in proportion to `weights`, in their shape (largest remainders)."""
    w = np.asarray(weights, dtype=float)
    exact = n * w.ravel() / w.sum()
    counts = np.floor(exact).astype(int)
    counts[np.argsort(counts - exact, kind="stable")[:n - counts.sum()]] += 1
    return counts.reshape(w.shape)


def generate(n: int, seed: int = 0, contingency=None, nouns: str = "all") -> Dataset:
    """Sentences in plain English with known structure, each with its two minimal pairs.

    `contingency`: weights [2, 3] of (zc Sg, Pl) × (ze none, Sg, Pl), default the paper's test set; the counts of the
    cells are exact. `nouns`: "all", or the lexicon's "train" or "test" half. The nouns are dealt out to three groups
    by `seed` (40/40/20 of every kind) and a sentence takes all its nouns from one group, so that `split` loses none.
    No text occurs twice.
    """
    weights = np.asarray(CONTINGENCY if contingency is None else contingency, dtype=float)
    if n <= 0:
        raise UserError(f"n = {n}: at least 1 sentence")
    if weights.shape != (2, 3) or not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() == 0:
        raise UserError(f"contingency {weights.tolist()}: a [2, 3] table of weights ≥ 0, not all 0 "
                        "(rows: subject Sg, Pl; columns: attractor none, Sg, Pl)")
    if nouns not in ("all", "train", "test"):
        raise UserError(f"nouns = {nouns!r}: 'all', 'train' or 'test'")
    rng = random.Random(seed)
    chosen = _deal([noun for noun in lexicon.NOUNS if nouns in ("all", noun.split)], rng)
    rows, seen = [], set()
    for (zc, column), size in np.ndenumerate(apportion(n, weights)):
        for group, k in zip(GROUPS, apportion(size, SHARES)):
            for _ in range(k):
                row = _sentence(rng, chosen[group], zc, column - 1)
                while row["text"] in seen:
                    row = _sentence(rng, chosen[group], zc, column - 1)
                seen.add(row["text"])
                rows.append(row | {"group": group})
    rng.shuffle(rows)
    return _dataset(rows)


def _deal(nouns: list[Noun], rng: random.Random) -> dict[str, dict[str, list[Noun]]]:
    """group → kind → nouns; every kind is dealt out 40/40/20."""
    groups = {group: {} for group in GROUPS}
    for kind in lexicon.KINDS:
        pack = [noun for noun in nouns if noun.kind == kind]
        rng.shuffle(pack)
        for group, k in zip(GROUPS, apportion(len(pack), SHARES)):
            groups[group][kind], pack = pack[:k], pack[k:]
    return groups


def _sentence(rng: random.Random, nouns: dict[str, list[Noun]], zc: int, ze: int) -> dict:
    """One sentence with the nouns of one group: [opening] subject [modifier] [MASK] continuation."""
    subject = rng.choice([noun for pack in nouns.values() for noun in pack])
    kind = subject.kind
    plural, singular, continuation = rng.choice(lexicon.PREDICATES[kind])
    attractor, middle = _modifier(rng, nouns, subject, ze)
    head = [rng.choice(lexicon.DETERMINERS) if kind in ("person", "thing") else "the"]
    if rng.random() < .3:
        head.append(rng.choice(lexicon.ADJECTIVES[kind]))
    if rng.random() < .2:
        opening = rng.choice(lexicon.OPENINGS)
        head.insert(0, opening if opening.endswith("that") else opening + ",")
    frame = " ".join([*head, "{s}", *middle, "[MASK]", continuation]) + "."
    frame = frame[0].upper() + frame[1:]

    def text(number: int, other: int) -> str:
        return frame.format(s=subject.form(number), a=attractor and attractor.form(other))

    return {"text": text(zc, ze), "zc": zc, "ze": ze, "verb": plural if zc else singular,
            "other_verb": singular if zc else plural, "subject": subject.singular,
            "attractor": attractor.singular if attractor else "", "subject_flipped": text(1 - zc, ze),
            "attractor_flipped": text(zc, 1 - ze) if attractor else ""}


def _modifier(rng: random.Random, nouns: dict[str, list[Noun]], subject: Noun,
              ze: int) -> tuple[Noun | None, list[str]]:
    """The attractor and the words between subject and verb; `{a}` stands for the attractor."""
    kind = subject.kind
    if ze >= 0:
        attractor, phrase = _phrase(rng, nouns, subject, "{a}")
        if kind in lexicon.STANDING and rng.random() < .15:         # … who stood near the gates [MASK]
            return attractor, [rng.choice(lexicon.STANDING[kind]), rng.choice(lexicon.PLACES), *phrase[1:]]
        return attractor, phrase
    shape = rng.random()
    if shape < .3:                                                  # the judges [MASK]
        return None, []
    if shape < .55:                                                 # the judges often [MASK]
        return None, [rng.choice(lexicon.ADVERBS)]
    if shape < .7:                                                  # the judges who came yesterday [MASK]
        return None, [rng.choice(lexicon.RELATIVES[kind])]
    if shape < .85:                                                 # the judges that the boy saw [MASK]
        person = rng.choice([noun for noun in nouns["person"] if noun != subject])
        return None, ["that the", person.form(rng.randrange(2)), rng.choice(lexicon.RELATIVES_OF_PERSON[kind])]
    between, phrase = _phrase(rng, nouns, subject, "{b}")           # the judges near the gates often [MASK]
    words = [between.form(rng.randrange(2)) if word == "{b}" else word for word in phrase]
    return None, [*words, rng.choice(lexicon.ADVERBS)]


def _phrase(rng: random.Random, nouns: dict[str, list[Noun]], subject: Noun, slot: str) -> tuple[Noun, list[str]]:
    """A noun that may follow `subject` and the prepositional phrase with `slot` in its place."""
    kinds = [kind for kind in lexicon.KINDS if (subject.kind, kind) in lexicon.PREPOSITIONS]
    noun = rng.choice([noun for kind in kinds for noun in nouns[kind] if noun != subject])
    phrase = [rng.choice(lexicon.PREPOSITIONS[subject.kind, noun.kind]), "the"]
    if rng.random() < .2:
        phrase.append(rng.choice(lexicon.ADJECTIVES[noun.kind]))
    return noun, [*phrase, slot]


def _dataset(rows: Iterable[dict]) -> Dataset:
    """The columns of every table, in order; missing ones are ""."""
    table = pd.DataFrame(list(rows)).reindex(columns=COLUMNS, fill_value="")
    return Dataset.from_pandas(table.astype({"zc": "int64", "ze": "int64"}), preserve_index=False)


def load(name: str, n: int | None = None, seed: int = 0, tokenizer=None) -> Dataset:
    """Real sentences: "linzen", "lgd_masked", both of these ("natural"), "lgd", "syneval" (crossed templates), in the
    file's order; or "generated": `generate(n, seed, nouns="test")`, nouns that `pocket-agreement` was not trained on.

    `n`: at most so many, drawn by `seed`. `tokenizer`: keep the rows whose two verb forms are different single tokens
    of it (anything with `get_vocab()`; four Linzen lines give one form twice). In natural text `ze` follows
    `object_number` ("lgd": the file's part-of-speech tags) and nouns are not known; in the templates everything is.
    """
    loaders = {"generated": lambda: generate(10_000 if n is None else n, seed, nouns="test").to_list(),
               "linzen": _linzen, "lgd_masked": _lgd_masked, "natural": _both, "syneval": _syneval, "lgd": _lgd}
    if name not in loaders:
        raise UserError(f"unknown agreement data {name!r}: one of {', '.join(loaders)}")
    if n is not None and n <= 0:
        raise UserError(f"n = {n}: at least 1 sentence, or None for all")
    rows = loaders[name]()
    if tokenizer is not None:
        vocabulary = tokenizer.get_vocab()
        rows = [row for row in rows
                if row["verb"] != row["other_verb"] and row["verb"] in vocabulary and row["other_verb"] in vocabulary]
    if n is not None and n < len(rows):
        rows = [rows[i] for i in sorted(random.Random(seed).sample(range(len(rows)), n))]
    return _dataset(rows)


def _linzen() -> list[dict]:
    """The 4 lines whose verb index misses its verb are left out."""
    sentences = fetch("linzen_testset.text").read_text(encoding="utf-8").splitlines()
    gold = fetch("linzen_testset.gold").read_text(encoding="utf-8").splitlines()
    rows = []
    for sentence, line in zip(sentences, gold, strict=True):
        words = sentence.removesuffix(" <eos>").split(" ")
        index, verb, other, _ = line.split("\t")
        if words[int(index)] == verb:
            rows.append(_natural(words, int(index), verb, other))
    return rows


def _lgd_masked() -> list[dict]:
    with open(fetch("lgd_masked.tsv"), encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
    split_up = [(row, row["masked"].split(" ")) for row in rows]
    return [_natural(words, words.index("***mask***"), row["verb"], row["other_verb"]) for row, words in split_up]


def _both() -> list[dict]:
    """Each text once: the two collections overlap."""
    return list({row["text"]: row for row in _linzen() + _lgd_masked()}.values())


def _natural(words: list[str], index: int, verb: str, other: str) -> dict:
    return {"text": " ".join([*words[:index], "[MASK]", *words[index + 1:]]),
            "zc": int(verb != _third_person(verb, other)), "ze": object_number(words[:index]),
            "verb": verb, "other_verb": other}


def _third_person(a: str, b: str) -> str:
    """Of two forms of a verb, the one for a singular subject: it ends in s, and of pass and passes it is the longer.
    "" where neither ends in s."""
    return max("", a, b, key=lambda word: (word.endswith("s"), len(word) * word.endswith("s")))


def _syneval() -> list[dict]:
    """Every noun of the templates has a regular plural; a full stop is added, as the files' sentences have none."""
    with open(fetch("syneval_prepositional.tsv"), encoding="utf-8", newline="") as f:
        pairs = list(csv.DictReader(f, delimiter="\t"))
    rows = []
    for pair in pairs:
        words, wrong = pair["grammatical"].split(), pair["ungrammatical"].split()
        at = next(i for i, (a, b) in enumerate(zip(words, wrong)) if a != b)
        zc, ze = (int(pair[key] == "Pl") for key in ("subject_number", "attractor_number"))
        masked = [*words[:at], "[MASK]", *words[at + 1:], "."]

        def flipped(i: int, number: int) -> str:
            return " ".join([*masked[:i], masked[i].removesuffix("s") if number else masked[i] + "s", *masked[i + 1:]])

        rows.append({"text": " ".join(masked), "zc": zc, "ze": ze, "verb": words[at], "other_verb": wrong[at],
                     "subject": words[1].removesuffix("s") if zc else words[1],
                     "attractor": words[at - 1].removesuffix("s") if ze else words[at - 1],
                     "subject_flipped": flipped(1, zc), "attractor_flipped": flipped(at - 1, ze)})
    return rows


def _lgd() -> list[dict]:
    """The published table. A singular verb whose plural form occurs nowhere in it is left out (its form is unknown)."""
    table = pd.read_csv(fetch("agr_50_mostcommon_10K.tsv.gz"), sep="\t", keep_default_na=False,
                        usecols=["orig_sentence", "pos_sentence", "verb", "verb_pos", "subj_index", "verb_index"])
    verbs = table["verb"].str.lower()
    plurals = sorted(verb for verb in verbs[table["verb_pos"] == "VBP"].unique() if verb.isalpha() and verb != "am")
    singular = {verb: {"are": "is", "have": "has"}.get(verb) or _s_form(verb) for verb in plurals}
    other_form = singular | {sg: pl for pl, sg in singular.items()}
    rows = []
    for verb, row in zip(verbs, table.itertuples(index=False)):
        words, tags = row.orig_sentence.split(" "), row.pos_sentence.split(" ")
        index, plural = row.verb_index - 1, row.verb_pos == "VBP"         # the file counts from 1
        if (verb in singular) == plural and verb in other_form and words[index].lower() == verb:
            rows.append({"text": " ".join([*words[:index], "[MASK]", *words[index + 1:]]), "zc": int(plural),
                         "ze": _tagged_object_number(tags[:index], row.subj_index - 1),
                         "verb": verb, "other_verb": other_form[verb]})
    return rows


def _s_form(verb: str) -> str:
    return verb + "es" if verb.endswith("o") else lexicon.plural(verb)


def _tagged_object_number(tags: list[str], subject: int) -> int:
    """As `object_number`, by Penn Treebank tags: IN or TO, then determiners, adjectives and nouns up to the verb."""
    if not tags or not tags[-1].startswith("NN"):
        return -1
    inside = ("DT", "PRP$", "POS", "JJ", "JJR", "JJS", "CD", "VBN", "VBG", "NN", "NNS", "NNP", "NNPS")
    at = next((i for i in range(len(tags) - 1, -1, -1) if tags[i] not in inside), -1)
    return int(tags[-1] in ("NNS", "NNPS")) if at > subject and tags[at] in ("IN", "TO") else -1


_PREPOSITIONS = set("""of in on at by for with from near behind beside under over between among within about against
    into through across along around above below beyond inside outside toward towards upon to""".split())
_DETERMINERS = set("""the a an this that these those its his her their our my your each every some any no all many
    several both few various other another two three four five six seven eight nine ten""".split())
_NO_NOUN_PHRASE = set("""and or but nor as than if because while when where who whom whose which what why how that there
    here not it he she they we you i me him us them himself herself itself themselves one is are was were be been being
    am has have had do does did will would can could may might shall should must also often usually still now then
    always never sometimes already just even only both each all alone else ever once too therefore however thus hence
    today later instead together itself""".split())
_UNCERTAIN = set("""series species means news media data sheep fish deer aircraft headquarters police staff crew
    course first last least present times general particular addition fact example instance contrast turn part
    himself others more most much many some any none two three four five six seven eight nine ten""".split())
_IRREGULAR = set("men women children people feet teeth mice geese criteria phenomena bacteria".split())


def object_number(words: list[str]) -> int:
    """Number (0 Sg, 1 Pl, −1 none or uncertain) of the prepositional object that the lower-case `words` end in.

    The rule looks for preposition (determiner)? (adjective or noun)* noun by word lists, without a tagger. The noun is
    plural if it ends in s (not ss, us, is) or is a listed irregular. −1 where it could be wrong: the phrase opens the
    sentence or follows a comma, "to" without a determiner, a word of a closed class, an adverb in -ly, a number, more
    than four words between, a noun of unclear number.
    """
    if len(words) < 3 or not _nominal(words[-1]) or words[-1] in _UNCERTAIN or words[-1].endswith("ics"):
        return -1
    noun = words[-1]
    number = int(noun in _IRREGULAR or noun.endswith("s") and not noun.endswith(("ss", "us", "is")))
    for i in range(len(words) - 2, max(len(words) - 7, 0), -1):
        determined = words[i] in _DETERMINERS
        at = i - 1 if determined else i
        if words[at] in _PREPOSITIONS:
            safe = at > 0 and words[at - 1][-1].isalnum() and (words[at] != "to" or determined)
            return number if safe else -1
        if determined or not (_nominal(words[i]) or words[i] == "'s"):
            return -1
    return -1


def _nominal(word: str) -> bool:
    letters = word.replace("-", "")
    return (len(word) > 1 and letters.isalpha() and not word.endswith("ly")
            and word not in _NO_NOUN_PHRASE | _DETERMINERS | _PREPOSITIONS)


def decorrelate(zc, ze) -> np.ndarray:
    """Indices [N] of the largest subset in which Z_c and Z_e are independent and Z_c keeps its distribution p.

    Only rows where both are present (≥ 0) count; any number of classes. n_ab = N·p_a·q_b may not exceed what is there,
    so column b holds at most m_b = min_a n_ab / p_a rows, and N = Σ_b m_b is reached by q_b = m_b / N (Canby et al.,
    §4). Cells are rounded down, so each differs from exact independence by less than one row. Exchange the arguments
    to keep Z_e's distribution. The rows of a cell are drawn with seed 0.
    """
    zc, ze = np.asarray(zc), np.asarray(ze)
    if zc.ndim != 1 or zc.shape != ze.shape:
        raise UserError(f"zc {zc.shape} and ze {ze.shape}: two lists of the same length")
    present = np.flatnonzero((zc >= 0) & (ze >= 0))
    if present.size == 0:
        raise UserError("no row has both properties (zc ≥ 0 and ze ≥ 0)")
    rng = np.random.default_rng(0)
    classes, share = np.unique(zc[present], return_counts=True)
    p = share / present.size
    kept = []
    for b in np.unique(ze[present]):
        cells = [present[(zc[present] == a) & (ze[present] == b)] for a in classes]
        m = min(len(cell) / p_a for cell, p_a in zip(cells, p))
        kept += [rng.choice(cell, int(m * p_a + 1e-9), replace=False) for cell, p_a in zip(cells, p)]
    return np.sort(np.concatenate(kept))


def split(table: Dataset, seed: int = 0) -> dict[str, np.ndarray]:
    """Row indices of oracle, intervention and test (40/40/20); 5 % of the first two are their "_valid" parts.

    Disjoint by sentence, and where nouns are known by subject and attractor as well. Generated tables come with their
    groups and lose no row. In a table of templates the nouns are dealt out by `seed` and a row whose subject and
    attractor fall into different groups is dropped: about a third of the crossed templates remains.
    """
    text, subject, attractor = (np.asarray(table[name], dtype=object) for name in ("text", "subject", "attractor"))
    part = np.asarray(table["group"], dtype=object)
    rng = np.random.default_rng(seed)
    if len(text) == 0:
        raise UserError("an empty table cannot be split: give it at least one sentence")
    if not part.all():
        if subject.all():
            group = _deal_nouns(subject, attractor, rng)
            part = np.array([group[s] if a == "" or group[a] == group[s] else "" for s, a in zip(subject, attractor)])
        else:
            texts = sorted(set(text))
            group = dict(zip(texts, rng.permutation(np.repeat(GROUPS, apportion(len(texts), SHARES)))))
            part = np.array([group[t] for t in text])
    parts = {name: np.flatnonzero(part == name) for name in GROUPS}
    for name in GROUPS[:2]:
        texts = sorted(set(text[parts[name]]))
        valid = set(rng.permutation(texts)[:round(VALID * len(texts))])
        held = np.array([t in valid for t in text[parts[name]]], dtype=bool)
        parts |= {name: parts[name][~held], f"{name}_valid": parts[name][held]}
    return parts


def _deal_nouns(subject: np.ndarray, attractor: np.ndarray, rng: np.random.Generator) -> dict[str, str]:
    """noun → group: subjects, attractors and nouns that are both are dealt out apart, those of many rows as evenly as
    those of few, in shares whose squares are as 40 to 40 to 20 (a row stays if both its nouns are in one group)."""
    rows = Counter(subject) + Counter(attractor[attractor != ""])
    shares = np.sqrt(SHARES) / np.sqrt(SHARES).sum()
    subjects, attractors = set(subject), set(attractor) - {""}
    group = {}
    for role in (subjects - attractors, attractors - subjects, subjects & attractors):
        dealt = np.zeros(len(GROUPS))
        for noun in sorted(rng.permutation(sorted(role)), key=rows.get):
            g = int(np.argmax(shares * (dealt.sum() + 1) - dealt))
            dealt[g] += 1
            group[str(noun)] = GROUPS[g]
    return group
