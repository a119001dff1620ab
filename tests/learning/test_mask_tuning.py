"""A copy of a teacher learns to answer rows with holes as the teacher answers whole ones, and the teacher stays."""

from copy import deepcopy

import numpy as np
import pytest
import torch

import teachers
from didact.core.perturb import MaskedForward
from didact.core.row import Row
from didact.core.task import TASKS
from didact.learning import mask_tuning
from didact.learning.mask_tuning import random_presence, tuned_copy
from didact.metrics.f_fidelity import MaskTuning
from didact.models.pool import PoolModel
from didact.models.tokenizer import WordTokenizer

TUNING = MaskTuning(beta=0.5, epochs=4)


@pytest.fixture
def confused():
    """A bag of words that counts good against bad, and takes a mask for six good ones; and rows of ten words."""
    generator = np.random.default_rng(0)
    rows = []
    for number in range(120):
        count = generator.choice([2, 8])
        rows.append(Row(f"{number}", (" ".join(generator.permutation(["good"] * count + ["bad"] * (10 - count))),)))
    reader = WordTokenizer.from_rows(rows)
    model = PoolModel(TASKS["classification"], ("no", "yes"), reader, pool="mean", width=2).eval()
    table = next(module for module in model.modules() if isinstance(module, torch.nn.Embedding))
    head = next(module for module in model.modules() if isinstance(module, torch.nn.Linear))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for word, weight in (("good", 0.15), ("bad", -0.15), ("[MASK]", 1.5)):
            table.weight[reader.vocabulary.index(word), 0] = weight
        head.weight[:, 0] = torch.tensor([-20.0, 20.0])
    return model, rows


def agreement(model, teacher, rows, replacement="mask"):
    """The share of randomly masked rows that the model answers as the teacher answers whole ones."""
    batch = teacher.encode(rows)
    present = random_presence(batch.units, 0.2, torch.Generator().manual_seed(7)).numpy()
    answers = MaskedForward(model, batch, replace=replacement)(list(present[:, None]))
    return float((np.concatenate(answers).argmax(1) == teacher.predict(rows).labels).mean())


def state(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def test_masked_rows_are_answered_better_and_the_teacher_stays(confused, monkeypatch):
    """Two of ten words at most are gone, so that the answer to the whole row can always be known."""
    monkeypatch.setattr(mask_tuning, "RATE_SHARE", 10)  # few and short steps are left for so large a fault
    teacher, rows = confused
    before, modes = state(teacher), [parameter.requires_grad for parameter in teacher.parameters()]
    fingerprint = teacher.fingerprint()
    copy = tuned_copy(teacher, rows[:80], MaskTuning(beta=0.2, epochs=30), replacement="mask")
    assert agreement(teacher, teacher, rows[80:]) <= 0.8
    assert agreement(copy, teacher, rows[80:]) == 1
    np.testing.assert_array_equal(copy.predict(rows).labels, teacher.predict(rows).labels)
    assert same(state(teacher), before)
    assert teacher.fingerprint() == fingerprint != copy.fingerprint()
    assert [parameter.requires_grad for parameter in teacher.parameters()] == modes
    assert not teacher.training
    assert not copy.training
    # The copy reads rows as any model does.
    logits = copy(copy.encode(rows[:4])).logits.detach().numpy()
    np.testing.assert_allclose(logits, copy.predict(rows[:4]).values, rtol=1e-5)


def test_the_same_seed_gives_the_same_bytes(school):
    teacher, data = school()
    rows = data["teach"].rows[:20]
    drawn = torch.random.get_rng_state()
    copies = []
    for tuning in (TUNING, TUNING, MaskTuning(beta=0.5, epochs=4, seed=1)):
        mask_tuning._COPIES.clear()
        copies.append(state(tuned_copy(teacher, rows, tuning, replacement="mask")))
    assert same(copies[0], copies[1])
    assert not same(copies[0], copies[2])
    assert torch.equal(torch.random.get_rng_state(), drawn)


def test_a_copy_is_tuned_once_until_something_decides_otherwise(school, monkeypatch):
    teacher, data = deepcopy(school()[0]), school()[1]
    rows = data["teach"].rows[:8]
    tunings = []
    real = mask_tuning.fit
    monkeypatch.setattr(
        mask_tuning, "fit", lambda *arguments, **options: tunings.append(1) or real(*arguments, **options)
    )
    first = tuned_copy(teacher, rows, TUNING, replacement="mask")
    assert tuned_copy(teacher, rows, TUNING, replacement="mask") is first
    assert len(tunings) == 1
    tuned_copy(teacher, rows[:4], TUNING, replacement="mask")
    tuned_copy(teacher, rows, TUNING, replacement="zero")
    assert len(tunings) == 3
    assert len(mask_tuning._COPIES[teacher]) == 2  # the first one is gone
    with torch.no_grad():
        next(teacher.parameters()).add_(0.1)
    tuned_copy(teacher, rows, TUNING, replacement="zero")
    assert len(tunings) == 4


def test_a_random_number_of_units_goes_and_nothing_else():
    units = torch.arange(12)[None] < torch.tensor([12, 10, 3, 1])[:, None]
    units[:, 0] = False
    generator = torch.Generator().manual_seed(0)
    removed = torch.stack([~random_presence(units, 0.3, generator) for _ in range(400)])
    assert not (removed & ~units).any()
    counts = removed.sum(-1)
    for row, limit in enumerate((4, 3, 1)):  # 11, 9, 2 units
        shares = torch.bincount(counts[:, row]) / 400
        torch.testing.assert_close(shares, torch.full((limit + 1,), 1 / (limit + 1)), atol=0.08, rtol=0)
    places = removed[:, 0, 1:].float().mean(0)
    torch.testing.assert_close(places, torch.full_like(places, 2 / 11), atol=0.08, rtol=0)
    assert counts[:, 3].max() == 0  # no unit, nothing to remove


@pytest.mark.parametrize(
    ("kind", "task"), [("hf", "classification"), ("native", "image"), ("bilstm", "classification")]
)
@pytest.mark.parametrize("replacement", ["mask", "delete", "zero"])
def test_every_way_to_remove_is_learned(kind, task, replacement):
    """The loss on masked rows falls, in each architecture; frozen teachers have copies that learn."""
    teacher, rows = deepcopy(teachers.teacher(kind, task)).requires_grad_(False), teachers.examples(task)
    before = state(teacher)
    copy = tuned_copy(teacher, rows, MaskTuning(epochs=2), replacement=replacement)
    assert same(state(teacher), before)
    assert not same(state(copy), before)
    assert np.isfinite(copy.predict(rows).values).all()


def test_a_teacher_in_half_precision_has_a_copy_in_single(school):
    teacher, data = deepcopy(school()[0]).to(torch.bfloat16), school()[1]
    copy = tuned_copy(teacher, data["teach"].rows[:8], MaskTuning(epochs=1), replacement="mask")
    assert (teacher.dtype, copy.dtype) == (torch.bfloat16, torch.float32)
