"""Sphinx extension: each link to a term of a glossary is described, on its own page, by the term's definition.

A page ends with the definitions of the terms that it links to, unseen; `_static/terms.js` shows one while its link is
pointed at or has the focus.
"""
from __future__ import annotations

import hashlib
import re

from docutils import nodes

LINK = re.compile(r'<a class="reference internal" href="[^"#]*#(?P<term>term-[^"]+)"'
                  r'(?=[^>]*><span class="xref std std-term">)')
EQUATIONS_ARE_LOADED = 500      # Sphinx adds MathJax then, to pages that have equations


def setup(app):
    app.connect("env-get-updated", _pages_to_write)
    app.connect("html-page-context", _describe, priority=EQUATIONS_ARE_LOADED - 100)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}


def _pages_to_write(app, env) -> set[str]:
    """All pages, if a definition has changed since the last build."""
    texts = [env.get_doctree(name).pformat() for name in _glossaries(env)]
    before, env.definitions = getattr(env, "definitions", None), hashlib.sha256("\n".join(texts).encode()).hexdigest()
    return set() if env.definitions == before else env.found_docs


def _glossaries(env) -> list[str]:
    objects = env.domaindata["std"]["objects"]
    return sorted({page for (kind, _), (page, _) in objects.items() if kind == "term"})


def _describe(app, pagename, templatename, context, doctree) -> None:
    """Point the page's links at definitions and put these behind its text."""
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

    context["body"] = LINK.sub(described, context["body"]) + "".join(
        f'<div class="definition" id="tip-{term}" role="tooltip" hidden>{html}</div>\n'
        for term, (html, _) in used.items())
    if any(formula for _, formula in used.values()):
        app.env.get_domain("math").data["has_equations"][pagename] = True


def _definitions(app) -> dict[str, tuple[str, bool]]:
    """For each term its definition as HTML without links, and whether it holds a formula."""
    found = {}
    for page in _glossaries(app.env):
        for item in app.env.get_and_resolve_doctree(page, app.builder).findall(nodes.definition_list_item):
            definition = nodes.container("", *(part.deepcopy() for part in item if isinstance(part, nodes.definition)))
            formula = any(definition.findall(nodes.math))
            html = "".join(_plain(app, child) for part in definition for child in part)
            found |= {name: (html, formula) for term in item.findall(nodes.term) for name in term["ids"]}
    return found


def _plain(app, node: nodes.Node) -> str:
    holder = nodes.container("", node)
    for link in list(holder.findall(nodes.reference)):
        link.parent.replace(link, link.children)
    for element in holder.findall(nodes.Element):
        element["ids"] = []
    return app.builder.render_partial(holder[0])["fragment"]
