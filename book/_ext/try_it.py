"""Sphinx extension: the directive `try-it`, a box in which a reader types a sentence and edits the
model's state.

    ```{try-it} A question that opens the box
    :methods: AlterRep FGSM
    :layers: 4
    :show: verb oracle picture

    Without JavaScript: what this box would show, and which figure shows it too.
    ```

`book/_static/try_it.js` fills the box. Its content stands in for it on paper and without scripts.
"""
from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from probebook.publish.sentences import SENTENCES

BLANK = "___"
SHOWN = ("words", "verb", "linear", "oracle", "picture")


class TryIt(SphinxDirective):
    """Argument: a question that opens the box. Options: `sentence` (one of the ten, from 1);
    `methods`, `layers` and `show` (of `SHOWN`), each a list with spaces; `flip`: the box shows the
    flipped sentence from the start."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True
    option_spec = {"sentence": directives.positive_int, "methods": directives.unchanged,
                   "layers": directives.unchanged, "show": directives.unchanged,
                   "flip": directives.flag}

    def run(self) -> list[nodes.Node]:
        chosen = self.options.get("sentence", 1) - 1
        data = {name: self.options.get(name, "") for name in ("methods", "layers")}
        data |= {"show": self.options.get("show", " ".join(SHOWN)),
                 "flip": "yes" if "flip" in self.options else ""}
        still = nodes.container("", classes=["try-it-still"])
        self.state.nested_parse(self.content, self.content_offset, still)
        return [nodes.raw("", form(chosen, data, *self.arguments), format="html"), still]


def form(chosen: int, data: dict[str, str], question: str = "") -> str:
    """The box as it stands before the model is loaded."""
    sentences = [text.replace("[MASK]", BLANK) for text in SENTENCES]
    options = "".join(f"<option{' selected' if i == chosen else ''}>{escape(text)}</option>"
                      for i, text in enumerate(sentences))
    kept = " ".join(f'data-{name}="{escape(value)}"' for name, value in data.items() if value)
    methods = "".join(f"<option>{name}</option>" for name in data["methods"].split())
    lead = f'<p class="question">{escape(question)}</p>' if question else ""
    return f"""<form class="try-it" {kept} autocomplete="off" novalidate>{lead}
<fieldset class="sentence"><legend>A sentence with a blank</legend>
<label>Choose one <select name="example">{options}</select></label>
<label>or type your own, with {BLANK} for the verb
<input name="text" value="{escape(sentences[chosen])}" spellcheck="false"></label>
<button>Try it</button></fieldset>
<p class="loading">The first answer loads the model from this book’s folder, 12 MB.
Nothing is sent anywhere.</p>
<progress max="1" value="0" aria-label="Loading the model" hidden></progress>
<p role="alert"></p>
<div class="shown" hidden>
<p class="said" aria-live="polite"></p>
<fieldset class="edit"{'' if methods else ' hidden'}><legend>Edit the state at the blank</legend>
<label>Method <select name="method">{methods}</select></label>
<label>Layer <select name="layer"></select></label>
<label class="to">Towards <select name="to"><option value="0">singular</option>
<option value="1">plural</option></select></label>
<label class="wide">Strength <span class="value"></span>
<input name="strength" type="range"></label></fieldset>
<fieldset class="flip"><legend>The true counterfactual</legend>
<label><input name="flip" type="checkbox"{' checked' if data["flip"] else ''}>
flip the number of</label><label>Noun to flip <select name="noun"></select></label></fieldset>
<div class="found"></div></div>
</form>"""


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("try-it", TryIt)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
