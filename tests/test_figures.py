"""What figures do beside being drawn: colours that stay apart, sliders that draw anew."""

import subprocess
import sys
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import seaborn as sns
import torch
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from probebook.base import ROOT
from probebook.figures import GREYS, PALETTE, bars, lines, method_colours, slider, versus_published
from probebook.figures.look import PLURAL, SINGULAR, colour_positions
from probebook_chapters.figures.causal_probing import before_and_after, edits_in_plane
from probebook_chapters.figures.front import highlight
from probebook_chapters.plane import edit_clouds

# What an eye without one kind of cone sees, on linear RGB (Machado, Oliveira and Fernandes 2009,
# severity 1).
EYES = {
    "all cones": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = TO_XYZ.sum(1)


def linear(colours) -> np.ndarray:
    rgb = np.array([to_rgb(colour) for colour in colours])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def closest(colours, eye) -> float:
    """The smallest distance of two colours in CIELAB, as that eye sees them."""
    x = np.clip(linear(colours) @ np.transpose(eye), 0, 1) @ TO_XYZ.T / WHITE
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    lab = np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], 1)
    return min(np.linalg.norm(a - b) for a, b in combinations(lab, 2))


@pytest.mark.parametrize("eye", EYES.values(), ids=EYES)
def test_colours_stay_apart_for_every_eye(eye):
    """Two steps that are just seen are about 2.3 apart; the palette's closest two at least 10."""
    assert closest(PALETTE, eye) > 10


def test_the_distance_sees_colours_that_fall_together():
    """Negative control: of ten common colours two come closer than that without green cones."""
    assert closest(sns.color_palette("tab10"), EYES["all cones"]) > 10
    assert closest(sns.color_palette("tab10"), EYES["deuteranopia"]) < 8


def test_every_colour_stands_out_from_white():
    """Contrast, from 1 (white on white) to 21."""
    contrast = (WHITE[1] + 0.05) / (linear(PALETTE + GREYS) @ TO_XYZ[1] + 0.05)
    assert contrast.min() > 2.2
    assert contrast[[PALETTE.index(c) for c in ("#0173b2", "#949494")]] == pytest.approx(
        [5.1, 3.0], abs=0.1
    )


def test_a_method_keeps_its_colour():
    """Whatever is drawn beside it; its variants darken; no other kind takes a method's colour."""
    inlp, orange = (to_rgb(PALETTE[colour_positions()[name]]) for name in ("INLP", "AlterRep"))
    assert method_colours(["AlterRep", "no edit", "INLP"]) == [orange, to_rgb(GREYS[0]), inlp]
    unit, raw, other = method_colours(["AlterRep, unit", "AlterRep, raw", "random signs"])
    assert unit == orange
    assert raw == pytest.approx([0.55 * part for part in orange])
    assert other == to_rgb(GREYS[0])
    assert method_colours(["encoder", 2, 3.0]) == [to_rgb(colour) for colour in PALETTE[:3]]


def test_singular_is_blue_and_plural_orange_in_every_order():
    """In bars of verbs and of sentences, in clouds, before and after an edit."""
    blue, orange = map(to_rgb, (SINGULAR, PLURAL))
    assert (SINGULAR, PLURAL) == tuple(PALETTE[:2])
    for kinds in (["is", "are"], ["singular subject", "plural subject"], ["singular, a", "plural"]):
        assert method_colours(kinds) == [blue, orange]
        assert method_colours(kinds[::-1]) == [orange, blue]
    assert method_colours(["learned", "random"]) == [blue, to_rgb(GREYS[0])]
    labels = ["plural subject", "singular subject"]
    points = pd.DataFrame({"x": [0.0, 1], "y": [0.0, 1], "label": labels, "when": "after"})
    scores = pd.DataFrame({"strength": [1], "completeness": 0, "selectivity": 0, "reliability": 0})
    place = pd.DataFrame({"x": [0.0], "y": [0.0]}, index=["one"])
    for figure in (before_and_after(points, scores, 1), highlight(points, place, "x", "y")):
        clouds = {c.get_label(): c for c in figure.axes[0].collections if c.get_label() in labels}
        drawn = [tuple(clouds[label].get_facecolor()[0, :3]) for label in sorted(labels)[::-1]]
        assert drawn == [blue, orange]


def test_what_scripts_draw_has_the_colours_of_the_library():
    static = ROOT / "book" / "_static"
    box = (static / "try_it.css").read_text(encoding="utf-8")
    assert f"--singular: {SINGULAR}; --plural: {PLURAL};" in box
    picture = (static / "erasure.svg").read_text(encoding="utf-8")
    blue, orange = picture.index(f'fill="{SINGULAR}"'), picture.index(f'fill="{PLURAL}"')
    assert blue < picture.index("the key to") < orange < picture.index("the keys to")


def test_names_of_lying_bars_stand_apart():
    """Where standing bars' names lie on each other; negative control."""
    names = ["as it is", "erased", "flipped", "pushed at random", "the other sentence"]
    data = pd.DataFrame({"state": names, "share": 0.5, "verb": "is"})

    def overlap(lying):
        figure = bars(data, "state", "share", "verb", lying=lying)
        figure.canvas.draw()
        axis = figure.axes[0].yaxis if lying else figure.axes[0].xaxis
        boxes = [Text.get_window_extent(text) for text in axis.get_ticklabels()]
        return any(a.overlaps(b) for a, b in combinations(boxes, 2))

    assert overlap(False) and not overlap(True)


def test_the_picture_of_the_methods_shows_what_each_does():
    """Fitted, not drawn by hand; on shuffled labels the clouds stay where they are."""
    clouds = edit_clouds()

    def means(states):
        return torch.stack([states[clouds.z == number].mean(0) for number in (0, 1)])

    def called_plural(method):
        return clouds.probe(clouds.edited[method]).argmax(1).bool()

    before, plural = means(clouds.h), clouds.z == 1
    apart = (before[1] - before[0]).norm()
    after = {method: means(states) for method, states in clouds.edited.items()}
    torch.testing.assert_close(after["LEACE"][0], after["LEACE"][1])
    assert (after["INLP"][1] - after["INLP"][0]).norm() < 0.3 * apart
    assert torch.linalg.matrix_rank(clouds.edited["INLP"], atol=1e-4) == 1  # a line through zero
    assert not called_plural("INLP").any()
    torch.testing.assert_close(after["MeanShift"], before.flip(0))
    for method in ("AlterRep", "MeanShift", "FGSM"):
        assert called_plural(method)[plural].double().mean() <= 0.2
    steps = (clouds.edited["FGSM"] - clouds.h).abs()
    torch.testing.assert_close(steps, torch.full_like(steps, float(steps[0, 0])))
    blind = edit_clouds(shuffled=True)
    assert torch.equal(blind.h, clouds.h)
    assert (blind.edited["MeanShift"] - blind.h).norm(dim=1).max() < 0.3 * apart


def test_the_picture_of_the_methods_draws_the_states():
    """A panel for each method: every erased state, and the flipped plural ones; arrows lead there."""
    clouds = edit_clouds()
    figure = edits_in_plane(clouds, arrows=4)
    for ax, (method, edited) in zip(figure.axes[1:], clouds.edited.items(), strict=True):
        drawn = [c.get_offsets() for c in ax.collections if isinstance(c, PathCollection)]
        numbers = (0, 1) if method in ("INLP", "LEACE") else (1,)
        shown = [edited[clouds.z == number].numpy() for number in numbers]
        assert len(drawn) == 2 + len(shown)
        for states in shown:
            assert any(np.allclose(states, points) for points in drawn)
        ends = [text.xy for text in ax.texts if text.arrow_patch]
        assert len(ends) == 4 * len(numbers)
        assert all(np.isclose(np.concatenate(shown), end).all(1).any() for end in ends)


@pytest.mark.parametrize("count", [2, 5, 9])
def test_numbers_go_from_light_to_dark(count):
    light = linear(method_colours(range(count))) @ TO_XYZ[1]
    assert (np.diff(light) < 0).all()
    assert 1.05 / (light[0] + 0.05) > 1.8


def test_a_slider_draws_anew_with_the_present_variables():
    """It opens where it should; a move draws its picture again, the others stay."""
    height = 1

    def draw(value):
        figure, ax = plt.subplots(figsize=(1, 1))
        ax.bar([0], [height * value])
        ax.set_ylim(0, 10)
        plt.close(figure)
        return figure

    handle, stack = slider(draw, [1, 2, 3], "width", at=2).children
    assert handle.index == stack.selected_index == 1
    drawn = [bytes(image.value) for image in stack.children]
    assert len(set(drawn)) == 3
    handle.index = 0
    assert [bytes(image.value) for image in stack.children] == drawn
    height = 3
    handle.index = 2
    first, second, third = (bytes(image.value) for image in stack.children)
    assert [first, second] == drawn[:2]
    assert third not in drawn and third.startswith(b"\x89PNG")


def test_figures_are_imported_without_torch():
    """Half of a small page's start is torch; what computes nothing with it does not wait for it."""
    code = "import sys, probebook.figures; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_published_values_are_hollow_and_stand_beside_ours():
    """In every panel: the first source hollow, each row once, ours below it."""
    data = pd.DataFrame(
        {
            "source": ["published"] * 4 + ["ours"] * 4,
            "method": list("aabb") * 2,
            "measure": ["C", "S"] * 4,
            "value": np.linspace(0.1, 0.8, 8),
        }
    )
    ours = data["source"] == "ours"
    data = data.assign(low=data.value.where(ours) - 0.1, high=data.value.where(ours) + 0.1)
    figure = versus_published(data, "method", "value", "measure")
    assert [ax.get_xlabel() for ax in figure.axes] == ["C", "S"]
    for ax, measure in zip(figure.axes, "CS"):
        drawn = [box[0] for box in ax.containers]
        assert [points.get_markerfacecolor() for points in drawn] == ["white", PALETTE[0]]
        assert (drawn[0].get_ydata() < drawn[1].get_ydata()).all()  # the axis points down
        shown = data[data.measure == measure]
        for points, source in zip(drawn, ["published", "ours"]):
            assert list(points.get_xdata()) == list(shown.value[shown["source"] == source])


def test_curves_at_one_place_all_show():
    """Each has its own dashes."""
    data = pd.DataFrame({"x": [0.2, 0.8] * 3, "y": [0.3, 0.6] * 3, "method": list("aabbcc")})
    drawn = lines(data, "x", "y", hue="method", dashes=True).axes[0].lines
    curves = [line for line in drawn if len(line.get_xdata())]
    assert len({(line.is_dashed(), str(line._dash_pattern)) for line in curves}) == 3


def names_beside(figure) -> list[tuple[str, float, float]]:
    """Names at the ends of curves, from below: text, its lower and its upper edge in pixels."""
    figure.canvas.draw()
    named = [text for text in figure.axes[-1].texts if text.arrow_patch]
    edges = [Text.get_window_extent(text) for text in named]  # without the arrow
    return sorted(
        ((text.get_text(), edge.y0, edge.y1) for text, edge in zip(named, edges)),
        key=lambda name: name[1],
    )


@pytest.mark.parametrize("log_y", [False, True])
def test_curves_have_their_names_at_their_ends(log_y):
    """In the order of the ends and one below the other, though three ends nearly meet; the last
    panel names the curves of all, and the baseline; there is no legend."""
    ends = {"a": 0.5, "b": 0.7, "c": 0.9, "d": 9, "e": 1.5}
    rows = [
        (x, end if x else 3, name, panel)
        for panel in ("left", "right")
        for name, end in ends.items()
        for x in (0, 1)
    ]
    data = pd.DataFrame(rows, columns=["x", "y", "kind", "panel"])
    figure = lines(data, "x", "y", "kind", 4, "as before", "panel", log_y=log_y)
    named = names_beside(figure)
    assert [name for name, _, _ in named] == ["a", "b", "c", "e", "as before", "d"]
    assert all(top <= bottom for (_, _, top), (_, bottom, _) in zip(named, named[1:]))
    assert all(ax.get_legend() is None for ax in figure.axes)
    assert not [text for text in figure.axes[0].texts if text.arrow_patch]


@pytest.mark.parametrize(
    "ends",
    [
        {"a": (1, 0.2), "b": (1, 0.2)},
        {"a": (1, 0.2), "b": (0.5, 0.9)},
        {name: (1, i) for i, name in enumerate("abcdef")},
    ],
)
def test_names_that_would_not_lead_to_a_curve_stand_in_a_legend(ends):
    """Two curves end at one point; one ends early; there are six."""
    rows = [row for name, end in ends.items() for row in ((0, 0, name), (*end, name))]
    figure = lines(pd.DataFrame(rows, columns=["x", "y", "kind"]), "x", "y", "kind")
    assert not names_beside(figure)
    legend = figure.axes[-1].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == list(ends)


def test_the_bands_of_curves_are_the_intervals_that_they_are_given():
    data = pd.DataFrame(
        {
            "x": [0, 2, 0, 2],
            "y": [0.5, 0.6, 0.1, 0.2],
            "name": ["read", "read", "control", "control"],
            "y_low": [0.4, 0.3, np.nan, np.nan],
            "y_high": [0.7, 0.9, np.nan, np.nan],
        }
    )
    (ax,) = lines(data, "x", "y", hue="name", intervals=True).axes
    corners = [path.vertices for band in ax.collections for path in band.get_paths()]
    assert len(corners) == 1  # the control has none
    assert {*map(tuple, corners[0])} == {(0, 0.4), (2, 0.3), (2, 0.9), (0, 0.7)}
    (without,) = lines(data, "x", "y", hue="name").axes
    assert not without.collections
