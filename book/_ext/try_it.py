"""Sphinx extension: the directive `try-it`, a box in which a reader types a sentence and edits the
model's state.

    ```{try-it} A question that opens the box
    :methods: AlterRep FGSM
    :layers: 4
    :show: verb oracle picture

    A first sentence for the caption of the figure that stands here on paper.
    ```

`book/_static/try_it.js` fills the box. On paper and without scripts the question and a figure, with
the content as the begin of its caption, stand in for it: `probebook_book.stills` has drawn it.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from probebook_book.boxes import Box, sentences

BLANK = "___"


class TryIt(SphinxDirective):
    """Argument: a question that opens the box. Options: the fields of `Box`."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True
    option_spec = {
        "sentence": directives.positive_int,
        "methods": directives.unchanged,
        "layers": directives.unchanged,
        "show": directives.unchanged,
        "flip": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        box = Box.of(self.options)
        return [nodes.raw("", form(box, *self.arguments), format="html"), self.still(box)]

    def still(self, box: Box) -> nodes.container:
        """Question, figure and caption; only the content where the build has drawn no figure."""
        still = nodes.container("", classes=["try-it-still"])
        drawn = f"book/stills/{box.key}"
        path = Path(self.env.srcdir, f"{drawn}.json")
        self.env.note_dependency(str(path))
        said = json.loads(path.read_text("utf-8")) if path.exists() else {}
        lines = [*self.arguments, "", *self.content, said.get("caption", "")]
        self.state.nested_parse(StringList(lines, path.name), self.content_offset, still)
        if said:
            legend = nodes.legend("", still.pop())
            still += nodes.figure("", nodes.image(uri=f"/{drawn}.png", alt=said["alt"]), legend)
        return still


def form(box: Box, question: str = "") -> str:
    """The box as it stands before the model is loaded."""
    shown = [text.replace("[MASK]", BLANK) for text in sentences()]
    options = "".join(
        f"<option{' selected' if i == box.sentence else ''}>{escape(text)}</option>"
        for i, text in enumerate(shown, 1)
    )
    kept = " ".join(
        f'data-{name}="{escape(value)}"'
        for name, value in (("methods", box.methods), ("layers", box.layers), ("show", box.show))
        if value
    )
    methods = "".join(f"<option>{name}</option>" for name in box.methods.split())
    lead = f'<p class="question">{escape(question)}</p>' if question else ""
    return f"""<form class="try-it" {kept} autocomplete="off" novalidate>{lead}
<fieldset class="sentence"><legend>A sentence with a blank</legend>
<label>Choose one <select name="example">{options}</select></label>
<label>or type your own, with {BLANK} for the verb
<input name="text" value="{escape(shown[box.sentence - 1])}" spellcheck="false"></label>
<button>Try it<span class="loading"> <br>(loads 12 MB)</span></button></fieldset>
<p class="why">The model is a part of this book and runs in your browser.
Nothing is sent anywhere.</p>
<progress max="1" value="0" aria-label="Loading the model" hidden></progress>
<p role="alert"></p>
<div class="shown" hidden>
<p class="said" aria-live="polite"></p>
<fieldset class="edit"{"" if methods else " hidden"}><legend>Edit the state at the blank</legend>
<label>Method <select name="method">{methods}</select></label>
<label>Layer <select name="layer"></select></label>
<label class="to">Towards <select name="to"><option value="0">singular</option>
<option value="1">plural</option></select></label>
<label class="wide">Strength <span class="value"></span>
<input name="strength" type="range"></label></fieldset>
<fieldset class="flip"><legend>The true counterfactual</legend>
<label><input name="flip" type="checkbox"{" checked" if box.flip else ""}>
show the sentence with the other number of this noun:</label>
<label>Noun <select name="noun"></select></label></fieldset>
<div class="found"></div></div>
</form>"""


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("try-it", TryIt)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
