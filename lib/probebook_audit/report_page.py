"""`report.html`: one file that needs neither a network nor a script."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from string import Template
from typing import Any

import pandas as pd

from probebook_audit import percent

GOOD = {
    "enough",
    "readable",
    "usable",
    "some",
    "kept",
    "nearer",
    "follows",
    "none found",
    "none known",
    "reliable",
}
OPEN = {
    "not asked",
    "moves",
    "open",
    "concept only",
    "usable in part",
    "cost unknown",
    "reliable in the state",
    "not judged",
}
SHOWN = ["complete", "kept", "reliability", "closeness", "explained"]

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; \
style-src 'unsafe-inline'">
<title>$title</title>
<style>
:root { color-scheme: light; --line: #d5d9de; --good: #00684a; --bad: #9c2f00; --open: #5b5f66; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.2rem; color: #1d2127;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.55rem; line-height: 1.25; margin: .2rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--line); }
.verdict { border-left: .4rem solid var(--tone); background: #f5f6f8; padding: .8rem 1rem;
  font-size: 1.15rem; margin: 1rem 0; }
.about { color: var(--open); overflow-wrap: anywhere; }
ol.answers { list-style: none; counter-reset: n; padding: 0; }
ol.answers > li { counter-increment: n; border-top: 1px solid var(--line); padding: .8rem 0; }
ol.answers h3 { font-size: 1rem; margin: 0; }
ol.answers h3::before { content: counter(n) " · "; }
.word { display: inline-block; border: 1px solid currentcolor; border-radius: 1rem;
  padding: 0 .7rem; font-size: .85rem; color: var(--tone); }
.good { --tone: var(--good); } .bad { --tone: var(--bad); } .open { --tone: var(--open); }
ol.answers p { margin: .25rem 0; overflow-wrap: anywhere; }
.figure { color: var(--open); font-size: .9rem; }
figure { margin: 1rem 0; } .picture { overflow-x: auto; }
img { max-width: 100%; min-width: 34rem; height: auto; }
figcaption { font-size: .9rem; color: var(--open); }
.scroll { overflow-x: auto; border: 1px solid var(--line); }
table { border-collapse: collapse; font-size: .88rem; width: 100%; }
th, td { padding: .35rem .6rem; text-align: right; border-bottom: 1px solid #eceef1;
  white-space: nowrap; }
th { background: #f5f6f8; } th:first-child, td:first-child, th:nth-child(2),
td:nth-child(2) { text-align: left; }
details { margin: .8rem 0; } summary { cursor: pointer; font-weight: 600; }
ul.checks { list-style: none; padding: 0; } ul.checks li { padding: .15rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .9rem; }
dd { margin: 0; overflow-wrap: anywhere; }
</style>
</head>
<body>
<main>
<p class="about">An audit by Probebook</p>
<h1>$title</h1>
<p class="verdict $tone">$sentence</p>
<p class="about">$about</p>
<h2>Ten questions, in this order</h2>
<ol class="answers">
$answers
</ol>
<h2>What the edits do over the dose</h2>
$pictures
<h2>The edits at their best strength</h2>
<p>With 95 % intervals over seeds and groups. <em>Reliability</em> is the harmonic mean
of <em>complete</em> (how far the edit reaches the wanted label) and <em>kept</em> (how much of the
property stays that suffers most). <em>Closeness</em> and <em>explained</em> compare with rewritten
texts: 100 % is what rewriting does, 0 % is doing nothing.</p>
$edits
<h2>Behind the answers</h2>
$more
<h2>Methods, to paste</h2>
<p>$methods</p>
<h2>Reporting checklist</h2>
<ul class="checks">
$checks
</ul>
<details><summary>Parameters and versions</summary>
<dl>
$parameters
</dl></details>
</main>
</body>
</html>
""")


def page(
    report: Mapping[str, Any],
    pictures: Sequence[tuple[str, str, str]],
    frames: Mapping[str, pd.DataFrame],
) -> str:
    """The report as HTML. All texts of the reader's are escaped; figures come with it."""
    say = html.escape
    about = (
        f"{report['seeds']} seeds · {len(report['items']['id']):,} test items · "
        f"{report['seconds']:.0f} seconds · {report['finished']} UTC · {report['device']} · "
        f"run {report['run'][:8]}"
    )
    images = [
        f'<figure><div class="picture" tabindex="0"><img src="{source}" alt="{alt}"></div>'
        f"<figcaption>{caption}</figcaption></figure>"
        for source, caption, alt in pictures
    ]
    checks = [
        f"<li>{'☑' if one['done'] else '☐'} {say(one['item'])}"
        f"{'' if one['done'] else ' — not shown here'}</li>"
        for one in report["checklist"]
    ]
    settings = {**report["parameters"], **report["versions"]}
    return PAGE.substitute(
        title=say(f"{report['data']}, read from {report['model']}"),
        tone=_tone(report["verdict"]),
        sentence=say(report["sentence"]),
        about=say(about),
        answers="\n".join(map(_answer, report["answers"])),
        pictures="\n".join(images),
        edits=_edits(report["edits"]),
        more=_more(frames),
        methods=say(report["methods"]),
        checks="\n".join(checks),
        parameters="\n".join(
            f"<dt>{say(str(name))}</dt><dd>{say(str(value))}</dd>"
            for name, value in settings.items()
        ),
    )


def _tone(word: str) -> str:
    return "good" if word in GOOD else "open" if word in OPEN else "bad"


def _answer(one: Mapping[str, Any]) -> str:
    say, figure, control = html.escape, one["figure"], one["control_figure"]
    lines = []
    if figure and figure["low"] is not None:
        lines.append(_percent(figure))
    if one["control"] and figure:
        lines.append(
            f"control: {say(one['control'])}"
            + (f", {percent(control['value'])}" if control else "")
        )
    below = (
        f'<p class="figure">{" · ".join(lines)}</p>'
        if lines and one["question"] not in ("data", "change", "paper")
        else ""
    )
    word = "" if one["question"] == "paper" else (f'<span class="word">{say(one["word"])}</span>')
    return (
        f'<li class="{_tone(one["word"])}"><h3>{say(one["asked"])}</h3>\n{word}\n'
        f"<p>{say(one['sentence'])}</p>{below}</li>"
    )


def _percent(figure: Mapping[str, float]) -> str:
    low, high = (percent(figure[end]).removesuffix(" %") for end in ("low", "high"))
    return f"{percent(figure['value'])} ({low} to {high})"


def _edits(edits: Sequence[Mapping[str, Any]]) -> str:
    if not edits:
        return "<p>No edit was scored, since no judge is usable.</p>"
    heads = ["method", "verdict", "layer", "strength", *SHOWN]
    rows = [
        [
            one["method"],
            one["word"],
            str(one["layer"]),
            f"{one['symbol']} {one['strength']:g}",
            *(_percent(one["figures"][name]) if name in one["figures"] else "–" for name in SHOWN),
        ]
        for one in edits
    ]
    return _table(heads, rows)


def _more(frames: Mapping[str, pd.DataFrame]) -> str:
    titles = {
        "readings": "Who reads the label, and how well?",
        "judges": "What do the judges know?",
        "shortcuts": "What else carries the label?",
    }
    parts = []
    for name, title in titles.items():
        frame = frames[name].fillna("")
        ids = [column for column in frame if column not in ("figure", "metric", "value")]
        wide = frame.pivot_table(index=ids, columns="figure", values="value", sort=False)
        rows = [
            [str(one) or "the concept" for one in (key if isinstance(key, tuple) else (key,))]
            + [_number(value) for value in row]
            for key, row in zip(wide.index, wide.to_numpy())
        ]
        parts.append(
            f"<details><summary>{html.escape(title)}</summary>\n"
            f"{_table([*ids, *map(str, wide.columns)], rows)}</details>"
        )
    return "\n".join(parts)


def _number(value: float) -> str:
    if value != value:
        return "–"
    return f"{value:,.0f}" if value == round(value) and abs(value) > 1 else f"{value:.2f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    say = html.escape
    head = "".join(f"<th>{say(str(one))}</th>" for one in heads)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{say(str(one))}</td>" for one in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>\n'
        f"{body}\n</tbody></table></div>"
    )
