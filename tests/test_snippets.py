"""Every Python block of README.md, of the method pages and of the models' page runs, in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from probebook import interventions
from probebook.base import ROOT
from probebook.probes import LinearProbe

METHODS = sorted((ROOT / "book" / "methods").rglob("*.md"))
TEXTS = [
    "README.md",
    "book/which_models.md",
    *(path.relative_to(ROOT).as_posix() for path in METHODS),
]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = [name for name in TEXTS if BLOCK.search((ROOT / name).read_text(encoding="utf-8"))]


z = torch.arange(200) % 2
h = torch.randn(200, 8, generator=torch.Generator().manual_seed(0)) + z[:, None]
# The names that methods/index introduces:
GIVEN = vars(interventions) | {"h": h, "z": z, "probe": LinearProbe().fit(h, z)}


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_shown_gives_finite_numbers_and_edits_move_states(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = dict(GIVEN) if "methods" in name and "explainers" not in name else {}
    for code in BLOCK.findall(Path(ROOT, name).read_text(encoding="utf-8")):
        exec(compile(code, name, "exec"), names)
    of_dicts = [value.values() if isinstance(value, dict) else [value] for value in names.values()]
    tensors = [one for values in of_dicts for one in values if isinstance(one, torch.Tensor)]
    assert tensors
    assert all(one.isfinite().all() for one in tensors)
    if names.get("h") is h:
        edited = [one for one in tensors if one is not h and one.shape == h.shape]
        assert edited
        assert not any(one.equal(h) for one in edited)


def test_all_method_pages_show_something():
    assert len(SHOWN) >= 17
