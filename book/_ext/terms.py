"""Sphinx extension: a link to a glossary's term is described by the term's definition.

A page ends with the definitions of the terms that it links to, hidden. `_static/terms.js` shows a
definition while the pointer or the focus is on its link."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

LINK = re.compile(
    r'<a class="reference internal" href="[^"#]*#(?P<term>term-[^"]+)"'
    r'(?=[^>]*><span class="xref std std-term">)'
)
BEFORE_MATHJAX = 400  # at 500 Sphinx adds MathJax to pages that have equations


def setup(app: Sphinx) -> dict[str, bool | int]:
    app.connect("env-get-updated", _pages_to_write)
    app.connect("html-page-context", _describe, priority=BEFORE_MATHJAX)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}


def _pages_to_write(app: Sphinx, env: BuildEnvironment) -> set[str]:
    """All pages, if a definition has changed since the last build."""
    texts = [env.get_doctree(name).pformat() for name in _glossaries(env)]
    before = getattr(env, "definitions", None)
    env.definitions = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    return set() if env.definitions == before else env.found_docs


def _glossaries(env: BuildEnvironment) -> list[str]:
    objects = env.domaindata["std"]["objects"]
    return sorted({page for (kind, _), (page, _) in objects.items() if kind == "term"})


def _describe(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Point a page's links at definitions, and put these at the end of the page."""
    if doctree is None or app.builder.format != "html":
        return
    if not hasattr(app, "definitions"):
        app.definitions = _definitions(app)
    used = {}

    def described(link: re.Match) -> str:
        if link["term"] not in app.definitions:
            return link[0]
        used[link["term"]] = app.definitions[link["term"]]
        return f'{link[0]} aria-describedby="tip-{link["term"]}"'

    body = LINK.sub(described, context["body"])
    for term, (html, _) in used.items():
        body += f'<div class="definition" id="tip-{term}" role="tooltip" hidden>{html}</div>\n'
    context["body"] = body
    if any(has_formula for _, has_formula in used.values()):
        app.env.get_domain("math").data["has_equations"][pagename] = True


def _definitions(app: Sphinx) -> dict[str, tuple[str, bool]]:
    """For each term: its definition as HTML without links, and whether it has a formula."""
    found = {}
    for page in _glossaries(app.env):
        doctree = app.env.get_and_resolve_doctree(page, app.builder)
        for item in doctree.findall(nodes.definition_list_item):
            parts = [part.deepcopy() for part in item if isinstance(part, nodes.definition)]
            has_formula = any(any(part.findall(nodes.math)) for part in parts)
            html = "".join(_plain(app, child) for part in parts for child in part)
            for term in item.findall(nodes.term):
                found |= dict.fromkeys(term["ids"], (html, has_formula))
    return found


def _plain(app: Sphinx, node: nodes.Node) -> str:
    """HTML of a node, without links and ids."""
    holder = nodes.container("", node)
    for link in list(holder.findall(nodes.reference)):
        link.parent.replace(link, link.children)
    for element in holder.findall(nodes.Element):
        element["ids"] = []
    return app.builder.render_partial(holder[0])["fragment"]
