"""The shape of the red glyph is the label; its patch is the rationale."""

import re

import numpy as np
import pytest

from didact.core.row import Row
from didact.data.planted.shapes import GLYPHS, shapes
from didact.errors import OptionError

FEW = {"teach": 0, "explain": 0, "train": 0, "dev": 0}


def coloured(image):
    """Pixels too bright for the ground."""
    return image.max(axis=2) >= 165


def test_pictures_are_small_and_of_bytes(planted):
    for row in planted("shapes")["test"]:
        assert row.image.shape == (32, 32, 3)
        assert row.image.dtype == np.uint8
        assert row.texts == ()


def test_one_red_glyph_lies_in_the_box_and_has_the_shape_of_the_class(planted):
    """Found here by its colour and by sliding each shape over the patch."""
    for row in planted("shapes")["test"]:
        ((top, left, bottom, right),) = row.rationale
        red = coloured(row.image) & (row.image[:, :, 1] < 80) & (row.image[:, :, 2] < 80)
        inside = red[top:bottom, left:right]
        assert inside.sum() == red.sum() == GLYPHS[row.label].sum()
        places = [(y, x) for y in range(3) for x in range(3)]
        assert any(np.array_equal(np.pad(GLYPHS[row.label], ((y, 2 - y), (x, 2 - x))), inside) for y, x in places)


def test_other_glyphs_fill_patches_of_their_own(planted):
    data = planted("shapes")
    for row in data["test"]:
        for one in (row, data.redraw(row, "rest"), data.redraw(row, "rationale")):
            assert coloured(one.image).reshape(4, 8, 4, 8).any(axis=(1, 3)).sum() == 5


def test_shapes_and_places_of_other_glyphs_tell_nothing():
    rows = shapes(**FEW, test=300)["test"]
    labels = np.array([row.label for row in rows])
    patch = np.array([row.rationale[0].top // 8 * 4 + row.rationale[0].left // 8 for row in rows])
    assert len(np.unique(patch)) == 16
    brightness = np.array([coloured(row.image).sum() - GLYPHS[row.label].sum() for row in rows])
    assert max(abs(brightness[labels == label].mean() - brightness.mean()) for label in range(4)) < 3.0


def test_noise_and_glyphs_are_options():
    calm = shapes(**FEW, test=30, noise=0.0, glyphs=1)
    for row in calm["test"]:
        assert np.array_equal(row.image.max(axis=2) > 0, coloured(row.image))
        assert calm.redraw(row, "rest").label == row.label
    full = shapes(**FEW, test=30, noise=1.0, glyphs=16)
    assert all(full.label_from(row) == row.label for row in full["test"])


def test_the_oracle_sees_no_class_without_red(planted):
    rows = [
        Row("a", image=np.zeros((32, 32, 3), dtype=np.uint8)),
        Row("b", image=np.full((32, 32, 3), 255, dtype=np.uint8)),
    ]
    np.testing.assert_allclose(planted("shapes").oracle().predict(rows).probabilities, 0.25)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"glyphs": 0}, "'glyphs' must be an integer from 1 to 16, not 0"),
        ({"glyphs": 17}, "'glyphs' must be an integer from 1 to 16, not 17"),
        ({"noise": 1.1}, "'noise' must be a probability from 0 to 1, not 1.1"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        shapes(**options)
