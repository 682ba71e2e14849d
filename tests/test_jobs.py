"""Pages side by side: what they take of a GPU is measured, and bounds how many run at a time."""
from __future__ import annotations

import pytest

from conftest import ENGINES
from probebook.runs.execute import run_all
from probebook.runs.page import CONTEXT
from probebook.runs.pages import find
from probebook.runs.records import read_record
from probebook.runs.store import plan

GIB = 1 << 30
# what torch says of a GPU of which a page takes more and more, then less
TAKES = """
    import torch
    _taken = [0, 5]
    torch.cuda.is_initialized = lambda: _taken[0] > 0
    torch.cuda.device_count = lambda: 2
    torch.cuda.max_memory_reserved = lambda device: _taken[device]
    start(globals())
    """


@ENGINES
def test_a_record_has_the_most_memory_that_its_page_took_of_a_gpu(tiny, engine):
    tiny(TAKES, "_taken[0] = 1000", "_taken[0] = 3000", "_taken[0] = 2000")
    assert run_all([run := plan(find("1_demo"))]) == []
    assert read_record(run.folder).device_memory == CONTEXT + 3005
    outputs = [len(cell.outputs) for cell in run.read().cells if cell.cell_type == "code"]
    assert sum(outputs) == 1                            # the record of the start, which has changed


def test_without_a_gpu_a_page_takes_none_of_its_memory(tiny):
    tiny(TAKES, "n")
    assert run_all([run := plan(find("1_demo"))]) == []
    assert read_record(run.folder).device_memory == 0


@pytest.mark.parametrize("name", ["", "cpu"])
def test_the_device_of_a_record_is_the_one_that_models_use(monkeypatch, name):
    """And to ask for its name takes none of its memory where the processor is used."""
    import torch

    from probebook.runs import page
    monkeypatch.setenv("PROBEBOOK_DEVICE", name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"a card, {device}")
    assert page.device() == (page.processor() if name else "a card, cuda:0")
