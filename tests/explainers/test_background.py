"""What rows are compared with: the form of the row, the words of the data, nothing of the neighbours."""

import numpy as np
import pytest
import torch

from didact.core.row import Row
from didact.errors import OptionError, UnsupportedError
from didact.explainers.background import Background
from teachers import examples, teacher


def prepared(kind="hf", task="classification", **options):
    model, rows = teacher(kind, task), examples(task)
    background = Background(**options)
    background.prepare(model, rows)
    return model, rows, background


def test_special_tokens_and_padding_stay_and_units_come_from_the_data():
    model, rows, background = prepared(size=4)
    batch = model.encode(rows)
    other = background.of(batch, torch.tensor([0, 1, 2]))
    assert torch.equal(other.tokens[~batch.units], batch.tokens[~batch.units])
    assert set(other.tokens[batch.units].tolist()) <= set(batch.tokens[batch.units].tolist())
    assert not torch.equal(other.tokens, batch.tokens)


def test_words_come_as_often_as_in_the_data():
    model = teacher("native", "classification")
    background = Background(size=4000)
    background.prepare(model, [Row("a", ("good good good bad",)), Row("b", ("bad good good good",))])
    batch = model.encode([Row("b", ("bad",))]).repeat(4000)
    drawn = background.of(batch, torch.arange(4000)).tokens[batch.units]
    good = int(model.encode([Row("c", ("good",))]).tokens[0, 1])
    assert abs((drawn == good).double().mean() - 0.75) < 0.03


def test_draws_depend_on_the_row_and_the_number_alone():
    model, rows, background = prepared(size=4)
    batch = model.encode(rows)
    together = background.of(batch, torch.tensor([2, 2, 2])).tokens
    for index in range(3):
        alone = background.of(model.encode([rows[index]]), torch.tensor([2])).tokens[0]
        assert torch.equal(together[index, : len(alone)], alone)
    another = background.of(batch, torch.tensor([3, 3, 3])).tokens
    assert not torch.equal(together, another)


def test_images_are_other_images():
    model, rows, background = prepared("hf", "image", size=16)
    batch = model.encode(rows)
    for number in range(16):
        other = background.of(batch, torch.full((3,), number))
        for index in range(3):
            same = [torch.equal(other.pixels[index], batch.pixels[other_index]) for other_index in range(3)]
            assert same.count(True) == 1
            assert not same[index]
    seen = {np.round(background.of(batch.select([0]), torch.tensor([n])).pixels.sum().item(), 6) for n in range(16)}
    assert len(seen) == 2, "both of the others"


def test_what_cannot_be_drawn():
    with pytest.raises(OptionError, match="at least 1"):
        Background(size=0)
    model, rows, _ = prepared("hf", "image")
    with pytest.raises(UnsupportedError, match="compared with itself"):
        Background().prepare(model, rows[:1])
