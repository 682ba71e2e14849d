"""Whether a page can use the models that its parameters name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from probebook.base import UserError
from probebook.hub import MODEL_KINDS, check_folder, kind, model_sizes, pocket_depth
from probebook_runs.pages import pages
from probebook_runs.schema import Fits, Layer, Reads, annotation, flatten, members, path_itself


def check_models(types: dict[str, Any], values: dict[str, Any]) -> None:
    """Refuse (UserError) models that a page cannot use, and layers that they do not have.

    By the declared types of the page's parameters, and a value for each: a model's files do not fit
    together, the page cannot use a model of its kind, or a `Layer` parameter lies outside it."""
    layers = [
        (name, item)
        for name, type_ in types.items()
        if Layer in members(type_)
        for item in flatten(values[name])
    ]
    for reads, fits, model in named_models(types, values):
        check_folder(model)
        if not fits(model):
            raise UserError(
                f"{model} is {MODEL_KINDS[kind(model)]}; this page needs {fits.words}. "
                f"It fits {', '.join(_pages_for(model))}"
            )
        if not layers or reads.files is not path_itself:
            continue
        known = model_sizes().get(model)
        last = known.layers if known else pocket_depth(model)
        if last is None:
            from probebook.models.loading import depth

            last = depth(model)
        for name, layer in layers:
            if not -last - 1 <= layer <= last:
                raise UserError(
                    f"{name} {layer}: {model} has layers 0 … {last} (or −1 … −{last + 1})"
                )


def named_models(
    types: dict[str, Any], values: dict[str, Any]
) -> Iterator[tuple[Reads, Fits, str]]:
    """Each model that values name: how its parameter reads files, which models fit, its name."""
    for name, type_ in types.items():
        for part in members(type_):
            reads, fits = annotation(part, Reads), annotation(part, Fits)
            if reads and fits:
                items = filter(None, flatten(values[name]))
                yield from ((reads, fits, reads.files(item)[0]) for item in items)


def _pages_for(model: str) -> list[str]:
    """The pages that can use a model: ["1/01–09", "3/02"]."""
    fitting = []
    for page in pages():
        defaults = {parameter.name: parameter.default for parameter in page.parameters}
        fits = [fits for _, fits, _ in named_models(page.types, defaults)]
        if fits and fits[0](model):  # the page's own model
            fitting.append([int(part.split("_")[0]) for part in page.name.split("/")])
    spans: list[list[int]] = []  # chapter, first and last page
    for chapter, number in fitting:
        if spans and spans[-1][0] == chapter and spans[-1][2] == number - 1:
            spans[-1][2] = number
        else:
            spans.append([chapter, number, number])
    return [f"{one}/{first:02}" + f"–{last:02}" * (last > first) for one, first, last in spans]
