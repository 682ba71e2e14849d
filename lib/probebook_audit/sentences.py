"""The audit's words as data: its questions, a sentence for every answer, and the verdicts."""

from __future__ import annotations

from collections.abc import Mapping

QUESTIONS = {
    "data": "Is there enough data, and how much would be?",
    "readable": "Is the concept readable?",
    "judges": "Are there usable judges of the concept, and of what should stay?",
    "edits": "Which edits do more than random ones, and than fits on shuffled labels?",
    "cost": "What do they cost what should stay?",
    "pairs": "How near do they come to the true counterfactual?",
    "behaviour": "Does the model's behaviour follow?",
    "shortcut": "Is the concept a shortcut?",
    "change": "What would change the verdict?",
    "paper": "Which sentence could stand in a paper?",
}

SENTENCES = {
    ("data", "enough"): "Yes: there are {have:,.0f} items, and about {need:,.0f} would do to tell "
    "the probe from {control}.",
    ("data", "too few"): "Not enough data: {have:,.0f} of about {need:,.0f} items needed.",
    ("data", "no difference"): "The probe does no better than {control}; more data of this kind "
    "would hardly change that.",
    ("readable", "readable"): "Yes: the probe is right on {value} of items from unseen "
    "groups, surely more than {control} ({control_value}).",
    ("readable", "by heart"): "Not shown: the probe is right on {value}, but it learns random "
    "labels of the same groups about as well.",
    ("readable", "not shown"): "Not shown: the probe is right on {value}, and {control} on "
    "{control_value}.",
    ("judges", "usable"): "Yes: judges of the concept, and of each property that should stay, beat "
    "the best answer without states.",
    ("judges", "usable in part"): "Of the concept and of some properties that should stay; the "
    "others have no usable judge and are left out.",
    ("judges", "concept only"): "Only of the concept: nothing that should stay has a usable judge, "
    "so the cost of an edit cannot be known.",
    ("judges", "none"): "No: no judge of the concept surely beats the best answer without states, "
    "so no edit can be scored.",
    ("edits", "some"): "{what} surely beat both controls over the whole dose curve.",
    ("edits", "none"): "None: no edit surely beats both controls over the whole dose curve.",
    ("edits", "not judged"): "Unknown: without a usable judge no edit has a score.",
    ("cost", "kept"): "{what} keeps {value} of what should stay; random edits of the same "
    "length keep {control_value}.",
    ("cost", "lost"): "Too much: even the best, {what}, reaches a reliability of {value}, and "
    "its interval begins below the {control}.",
    ("cost", "not asked"): "Unknown: no property with a usable judge was named that should stay.",
    ("cost", "not judged"): "Unknown: there is no edit whose cost would matter.",
    ("pairs", "nearer"): "{what} goes {value} of the way to the states of the rewritten texts.",
    ("pairs", "not nearer"): "No nearer: after {what} the states are not surely closer to those of "
    "the rewritten texts than unedited ones are ({value} of the way).",
    ("pairs", "not asked"): "Not asked: there are no rewritten texts, or no judged edit.",
    ("behaviour", "follows"): "Yes: {what} explains {value} of what rewriting the text does to "
    "the model's choice (it moves by {rewriting}); random edits explain "
    "{control_value}.",
    ("behaviour", "does not follow"): "No: {what} explains {value} of what rewriting does to "
    "the model's choice, not surely more than random edits.",
    ("behaviour", "unused"): "The model hardly uses the concept: rewriting the text itself moves "
    "its choice by only {value_exact}.",
    ("behaviour", "moves"): "{what} moves the model's choice by {value}, random edits by "
    "{control_value}; without rewritten texts nobody knows whether "
    "this is the right way.",
    ("behaviour", "not asked"): "Not asked: the model has no words to choose among, or no edit "
    "is judged.",
    ("shortcut", "named"): "Yes, it may be: where {what} points to another label, the probe is "
    "right on only {value}.",
    ("shortcut", "none found"): "None found: where {what}, the nearest to a shortcut, points to "
    "another label, the probe is still right on {value}.",
    ("shortcut", "none known"): "None found: no other source that was tried gives the label surely "
    "more often than the majority does ({what}: {value}, 95 % interval "
    "from {low}; the majority: {control_value}).",
    ("shortcut", "open"): "Open: {what} gives the label too; where it points to another one, the "
    "items do not tell whether the probe follows it.",
    ("shortcut", "not asked"): "Not asked: nothing else is known of the items.",
}

FINAL = {  # word: verdict, what would change it, sentence for a paper
    "not enough data": (
        "Not enough data for a verdict.",
        "More items with labels, in more groups; see the first answer for how many.",
        "With {items:,} items we could not decide whether {concept} can be edited reliably.",
    ),
    "not readable": (
        "The concept is not shown to be readable here.",
        "Another layer or position, or labels with less noise.",
        "A probe of {concept} did not surely beat its controls.",
    ),
    "shortcut": (
        "The probe may read a shortcut, not the concept.",
        "Items in which the concept and the shortcut part.",
        "Where {what} pointed to another label, a probe of {concept} failed; we therefore draw no "
        "conclusion about edits.",
    ),
    "no usable judge": (
        "No usable judge, so no verdict on any edit.",
        "More items in which the concept does not go with what should stay.",
        "No probe qualified as a judge of {concept}, so we report no score of an edit.",
    ),
    "no better than chance": (
        "No edit does more than its controls.",
        "Other methods, another layer, or more items.",
        "No edit of {concept} surely exceeded random edits of equal length and fits on shuffled "
        "labels.",
    ),
    "costs too much": (
        "Edits change the concept, and too much else.",
        "A gentler method, or another layer.",
        "Edits changed {concept} but not reliably: at best {reliability} (95 % interval).",
    ),
    "not used": (
        "{best} edits the state, but the model's behaviour does not follow.",
        "Another layer, or words that depend on the concept.",
        "{best} edits {concept} in the state (reliability {reliability}, 95 % interval), but the "
        "model's choice does not follow more than after random edits.",
    ),
    "cost unknown": (
        "{best} changes the concept; what else it changes is unknown.",
        "A property that should stay (--keep) with enough items.",
        "{best} changes {concept} more than random edits and fits on shuffled labels do; its side "
        "effects were not measured.",
    ),
    "reliable in the state": (
        "{best} is reliable in the state; behaviour was not tested.",
        "Rewritten texts (--pair) and words (--words) that show what the model does.",
        "{best} edits {concept} with a reliability of {reliability} (95 % interval over seeds and "
        "groups), more than random edits of equal length and fits on shuffled labels; whether the "
        "model's behaviour follows was not tested.",
    ),
    "reliable": (
        "{best} is reliable, as far as this audit can tell.",
        "A property that should stay and was not named, other texts, or another model.",
        "{best} edits {concept} with a reliability of {reliability} (95 % interval over seeds and "
        "groups), more than random edits of equal length and fits on shuffled labels, and the "
        "model's choice follows.",
    ),
}

NEARER = {  # whether the states come nearer to those of rewritten texts, for a paper's sentence
    "nearer": " The edited states are nearer to those of rewritten texts than unedited ones.",
    "not nearer": " The edited states are not surely nearer to those of rewritten texts than "
    "unedited ones.",
}


def sentence(row: Mapping, concept: str = "the concept", items: int = 0) -> str:
    """An answer as one sentence, from its word and its figures."""
    if row["question"] == "verdict":
        return FINAL[row["word"]][0].format(best=row["what"])
    if row["question"] == "change":
        return FINAL[row["word"]][1]
    if row["question"] == "paper":
        known = row.get("low") is not None and row.get("low") == row.get("low")
        ends = (
            f"{row['value']:.2f}, {row['low']:.2f} to {row['high']:.2f}"
            if known
            else "not measured"
        )
        said = FINAL[row["word"]][2].format(
            items=items, concept=concept, best=row["what"], what=row["what"], reliability=ends
        )
        return said + NEARER.get(row["control"], "") if "{best}" in FINAL[row["word"]][2] else said
    shares = {name: percent(row[name]) for name in ("value", "low", "control_value") if name in row}
    if "rewriting value" in row:
        shares["rewriting"] = percent(row["rewriting value"])
    exact = {"value_exact": f"{100 * row['value']:.1f} %"} if "value" in row else {}
    return SENTENCES[row["question"], row["word"]].format(**{**row, **shares, **exact})


def percent(share: float) -> str:
    """A share as a whole percentage: "83 %", "−20 %", "0 %"."""
    return f"{round(100 * share) + 0:d} %".replace("-", "−") if share == share else "–"
