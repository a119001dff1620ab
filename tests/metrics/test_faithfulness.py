"""Faithfulness against what it says on paper: each question asked alone, of the bare model, by its tokens."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import teachers
import tiny
from didact.core.row import Row
from didact.errors import DataError, OptionError, UnsupportedError
from didact.explaining.explain import explain
from didact.metrics import faithfulness as module
from didact.metrics.faithfulness import faithfulness
from didact.metrics.probe import Probe, covering_units
from didact.metrics.ranked import Ranked, TeacherAnswers
from didact.results.row_explanation import top_count
from references.removal import symmetric_relevance_gain

ALL = {
    "sufficiency": module.Sufficiency(k=0.3),
    "comprehensiveness": module.Comprehensiveness(k=0.3),
    "aopc_sufficiency": module.AopcSufficiency(),
    "aopc_comprehensiveness": module.AopcComprehensiveness(bins=[0.2, 0.5, 1.0]),
    "log_odds_positive": module.LogOddsPositive(),
    "log_odds_negative": module.LogOddsNegative(),
    "log_odds_top": module.LogOddsTop(k=2),
    "prediction_agreement": module.PredictionAgreement(),
    "deletion_auc": module.DeletionArea(steps=4),
    "insertion_auc": module.InsertionArea(steps=4),
    "srg": module.SymmetricRelevanceGain(steps=4),
    "flip_fraction": module.FlipFraction(),
}


def by_hand(name, scores, chance):
    """The metric of one row as its definition reads; `chance(kept)` gives the probabilities with these units there."""
    units = list(range(len(scores)))
    ranked = sorted(units, key=lambda unit: -scores[unit])  # Python's sort keeps the order of equals
    full = chance(units)
    label = int(np.argmax(full))

    def gone(out):
        return chance([unit for unit in units if unit not in out])

    def odds(p):
        p = min(max(p, 1e-7), 1 - 1e-7)
        return math.log(p / (1 - p))

    def first(share):
        return ranked[: math.ceil(share * len(units) - 1e-9) or 1]

    if name == "sufficiency":
        return full[label] - chance(first(0.3))[label]
    if name == "comprehensiveness":
        return full[label] - gone(first(0.3))[label]
    if name == "aopc_sufficiency":
        return np.mean([full[label] - chance(first(share))[label] for share in (0.01, 0.05, 0.1, 0.2, 0.5)])
    if name == "aopc_comprehensiveness":
        return np.mean([full[label] - gone(first(share))[label] for share in (0.2, 0.5, 1.0)])
    if name.startswith("log_odds"):
        size = {"positive": lambda u: scores[u], "negative": lambda u: -scores[u], "top": lambda u: abs(scores[u])}
        key = size[name.rpartition("_")[2]]
        most = 2 if name.endswith("top") else len(first(0.3))
        chosen = [unit for unit in sorted(units, key=lambda unit: -key(unit)) if key(unit) > 0][:most]
        return odds(full[label]) - odds(gone(chosen)[label]) if chosen else math.nan
    if name == "prediction_agreement":
        return float(np.argmax(chance(first(0.3))) == label)
    if name == "srg":
        return symmetric_relevance_gain(scores, lambda present: chance(present)[label], steps=4)
    if name == "flip_fraction":
        for count in sorted({math.ceil(step / 20 * len(units) - 1e-9) for step in range(1, 21)}):
            if np.argmax(gone(ranked[:count])) != label:
                return count / len(units)
        return 1.0
    points = sorted({math.ceil(step / 4 * len(units) - 1e-9) for step in range(5)})
    heights = [(gone if name == "deletion_auc" else chance)(ranked[:count])[label] for count in points]
    area = 0.0
    for (a, low), (b, high) in zip(
        zip(points, heights, strict=True), list(zip(points, heights, strict=True))[1:], strict=False
    ):
        area += (b - a) / len(units) * (low + high) / 2
    return area


def asked_alone(teacher, row, remove):
    """`chance` for one row of a Hugging Face model: its own forward pass on altered token ids."""
    batch = teacher.encode([row])
    ids, types = batch.tokens[0].tolist(), None if batch.types is None else batch.types[0].tolist()
    places = [place for place, unit in enumerate(batch.units[0].tolist()) if unit]

    def chance(kept):
        stays = {places[unit] for unit in kept} | (set(range(len(ids))) - set(places))
        if remove == "delete":
            order = [place for place in range(len(ids)) if place in stays]
            tokens = [ids[place] for place in order]
        else:
            filler = {"mask": teacher.tokenizer.mask_token_id, "pad": teacher.tokenizer.pad_token_id}[remove]
            order = list(range(len(ids)))
            tokens = [token if place in stays else filler for place, token in enumerate(ids)]
        inputs = {"input_ids": torch.tensor([tokens]), "attention_mask": torch.ones(1, len(tokens), dtype=torch.long)}
        if types is not None:
            inputs["token_type_ids"] = torch.tensor([[types[place] for place in order]])
        with torch.no_grad():
            return teacher.model(**inputs).logits[0].softmax(-1).numpy()

    return chance


@pytest.mark.parametrize("remove", ["mask", "delete", "pad"])
@pytest.mark.parametrize("task", ["classification", "pair"])
def test_every_metric_is_what_it_says(task, remove):
    teacher, rows = teachers.teacher("hf", task), teachers.examples(task)
    methods = [explain(teacher, rows, "gradient_input"), explain(teacher, rows, "random")]
    found = faithfulness(list(ALL.values()), methods, Probe(teacher, rows, replace=remove, batch_size=4))
    assert found.shape == (len(ALL), 2, len(rows))
    for number, name in enumerate(ALL):
        for place, maps in enumerate(methods):
            for index, row in enumerate(rows):
                scores, chance = maps[index].scores.tolist(), asked_alone(teacher, row, remove)
                wanted = by_hand(name, scores, chance)
                if maps.kind != "signed" and name in ("log_odds_positive", "log_odds_negative"):
                    wanted = math.nan
                assert found[number, place, index] == pytest.approx(wanted, abs=1e-9, nan_ok=True), (name, row.id)


@pytest.mark.parametrize("kind", ["hf", "native", "bilstm", "pool"])
@pytest.mark.parametrize("remove", ["mask", "delete", "zero"])
def test_alone_is_batched(kind, remove):
    """What a row's neighbours in a batch are, changes nothing: no padding is ever read."""
    if "classification" not in teachers.KINDS[kind]:
        pytest.skip("it does not classify texts")
    teacher, rows = teachers.teacher(kind, "classification"), teachers.examples("classification")
    maps = explain(teacher, rows, "random")
    metrics = list(ALL.values())
    together = faithfulness(metrics, [maps], Probe(teacher, rows, replace=remove))
    for index, row in enumerate(rows):
        alone = faithfulness(metrics, [maps.select([index])], Probe(teacher, [row], replace=remove, batch_size=1))
        np.testing.assert_allclose(together[:, :, index], alone[:, :, 0], atol=1e-9)


def test_a_model_without_special_tokens_can_lose_everything():
    """Nothing but one token of padding is left to read; that is asked, not an error."""
    teacher = teachers.teacher("bilstm", "classification")
    reader = replace(teacher.reader, special=False)
    bare = type(teacher)(teacher.task, teacher.classes, reader, **teacher.options).eval()
    rows = teachers.examples("classification")
    found = Probe(bare, rows, replace="delete").predict_masked(
        [np.zeros((1, width), dtype=bool) for width in [_width(bare, rows)] * 3]
    )
    assert np.isfinite(np.concatenate(found)).all()
    np.testing.assert_array_equal(found[0], found[1])


def _width(teacher, rows):
    return teacher.encode(rows).tokens.shape[1]


def test_words_are_removed_whole():
    """A word's pieces go together, whatever unit the scores are of."""
    teacher, row = teachers.teacher("hf", "classification"), Row("r", ("an unbelievable film",))
    maps = explain(teacher, [row], "gradient_input", level="word")
    places = teacher.encode([row])
    columns = covering_units(
        maps.segments, maps.offsets, np.where(places.units[0], places.segments[0], -1), places.offsets[0].numpy()
    )
    assert columns.tolist() == [-1, 0, 1, 1, 1, 2, -1]
    k = module.Comprehensiveness(k=1)
    found = faithfulness([k], [replace(maps, scores=np.array([0.0, 1.0, 0.0]))], Probe(teacher, [row]))
    chance = asked_alone(teacher, row, "mask")
    label = chance(range(5)).argmax()
    assert found[0, 0, 0] == pytest.approx((chance(range(5)) - chance([0, 4]))[label])


def test_units_of_another_tokenizer_find_their_characters():
    segments, offsets = np.zeros(3, dtype=np.int64), np.array([[0, 2], [3, 9], [12, 14]])
    own = np.array([-1, 0, 0, 0, 0, 1]), np.array([[0, 0], [0, 2], [2, 6], [6, 9], [9, 13], [0, 2]])
    assert covering_units(segments, offsets, *own).tolist() == [-1, 0, 1, 1, 2, -1]


def test_black_boxes_and_scores():
    box, rows = teachers.black_box(), teachers.examples("classification")
    maps = explain(box, rows, "occlusion")
    found = faithfulness([ALL["comprehensiveness"]], [maps], Probe(box, rows))
    for index, row in enumerate(rows):
        top = np.argsort(-maps[index].scores, kind="stable")[: top_count(0.3, len(maps[index]))]
        without = box.without(row, [box.units(row)[unit] for unit in top])
        said, left = box.predict([row]).probabilities[0], box.predict([without]).probabilities[0]
        assert found[0, 0, index] == pytest.approx((said - left)[said.argmax()])
    teacher, rows = teachers.teacher("native", "regression"), teachers.examples("regression")
    maps = explain(teacher, rows, "gradient_input")
    found = faithfulness([ALL["comprehensiveness"]], [maps], Probe(teacher, rows))
    assert (found >= 0).all()
    with pytest.raises(UnsupportedError, match="gives a score"):
        faithfulness([ALL["flip_fraction"]], [maps], Probe(teacher, rows))


def test_scores_are_moved_by_the_largest_whatever_their_sign():
    """A regression has no class to speak against: −3 comes before 2."""
    teacher, rows = teachers.teacher("native", "regression"), teachers.examples("regression")
    maps = explain(teacher, rows, "gradient_input")
    scores = np.linspace(0.1, 1.0, len(maps.scores))
    scores[maps.bounds[:-1] + 1] = -3.0
    probe = Probe(teacher, rows)
    found = faithfulness([module.Comprehensiveness(k=1)], [replace(maps, scores=scores)], probe)[0, 0]
    for index in range(len(rows)):
        kept = np.ones((1, probe.masked.units.shape[1]), dtype=bool)
        kept[0, np.flatnonzero(probe.masked.units[index])[1]] = False
        moved = probe.full()[index, 0] - probe.predict_masked([kept], rows=[index])[0][0, 0]
        assert found[index] == pytest.approx(abs(moved))


def test_another_class_than_the_predicted_one():
    """Probabilities are of the class that is explained; whether the prediction holds or flips, is about the other."""
    teacher, rows = teachers.teacher("hf", "classification"), teachers.examples("classification")
    maps = explain(teacher, rows, "gradient_input")
    full = Probe(teacher, rows).full()
    other = tuple(teacher.classes[int(chances.argmin())] for chances in full)
    names = ("comprehensiveness", "prediction_agreement", "flip_fraction")
    found = faithfulness([ALL[name] for name in names], [replace(maps, targets=other)], Probe(teacher, rows))[:, 0]
    for index, row in enumerate(rows):
        scores, chance = maps[index].scores.tolist(), asked_alone(teacher, row, "mask")
        top = np.argsort(-maps[index].scores, kind="stable")[: top_count(0.3, len(scores))]
        left = chance([unit for unit in range(len(scores)) if unit not in top])
        assert found[0, index] == pytest.approx((full[index] - left)[full[index].argmin()])
        assert found[1, index] == by_hand("prediction_agreement", scores, chance)
        assert found[2, index] == pytest.approx(by_hand("flip_fraction", scores, chance))


def test_what_nobody_scored_stays():
    """An explanation of the first word alone takes that word away, and no other."""
    teacher, row = teachers.teacher("hf", "classification"), Row("r", ("a good film",))
    maps = explain(teacher, [row], "gradient_input")
    first = replace(
        maps, bounds=np.array([0, 1]), tokens=maps.tokens[:1], segments=maps.segments[:1],
        word_index=maps.word_index[:1], offsets=maps.offsets[:1], scores=np.ones(1),
    )  # fmt: skip
    found = faithfulness([module.Comprehensiveness(k=1.0)], [first], Probe(teacher, [row]))
    chance, units = asked_alone(teacher, row, "mask"), range(len(maps.scores))
    label = chance(units).argmax()
    assert found[0, 0, 0] == pytest.approx((chance(units) - chance(units[1:]))[label])


def test_images():
    teacher, rows = teachers.teacher("native", "image"), teachers.examples("image")
    maps = explain(teacher, rows, "gradient_input")
    probe = Probe(teacher, rows)
    assert probe.masked.description == "embedding 0"
    found = faithfulness([module.Comprehensiveness(k=1.0), module.Sufficiency(k=1.0)], [maps], probe)
    np.testing.assert_allclose(found[1], 0, atol=1e-9)
    batch = teacher.encode(rows)
    with torch.no_grad():
        empty = teacher.run(teacher.embed(batch).masked_fill(batch.units[..., None], 0), batch).logits.softmax(-1)
    full = probe.full()
    wanted = (full - empty.numpy())[np.arange(3), full.argmax(1)]
    np.testing.assert_allclose(found[0, 0], wanted, atol=1e-9)
    with pytest.raises(DataError, match="patches"):
        faithfulness([ALL["sufficiency"]], [_halved(maps)], Probe(teacher, rows))


def _halved(maps):
    """The first patch of each row alone, as of a teacher that reads fewer."""
    first = maps.bounds[:-1]
    return replace(
        maps, bounds=np.arange(len(maps) + 1), tokens=tuple(maps.tokens[place] for place in first),
        segments=maps.segments[first], word_index=maps.word_index[first], offsets=maps.offsets[first],
        scores=maps.scores[first],
    )  # fmt: skip


class TestEdges:
    """One unit, equal scores, p = 1, and what cannot be."""

    def said(self, parts, full=(0.9, 0.1), units=4):
        return TeacherAnswers(np.array(full), np.array(parts), 0, units)

    def test_one_unit(self):
        row = Ranked.of(_row([0.5]), by_size=False)
        assert ALL["deletion_auc"].masks(row).tolist() == [[False]]
        assert ALL["insertion_auc"].masks(row).tolist() == [[False]]
        assert ALL["deletion_auc"].value(self.said([[0.5, 0.5]], units=1)) == pytest.approx(0.7)
        assert ALL["flip_fraction"].value(self.said([[0.2, 0.8]], units=1)) == 1.0

    def test_equal_scores_keep_their_order(self):
        row = Ranked.of(_row([1.0, 1.0, 1.0, 1.0]), by_size=False)
        assert row.top([2]).tolist() == [[True, True, False, False]]

    def test_signs(self):
        row = _row([-3.0, 1.0, 2.0])
        assert Ranked.of(row, by_size=False).order.tolist() == [2, 1, 0]
        assert Ranked.of(row, by_size=True).order.tolist() == [0, 2, 1]
        assert ALL["log_odds_negative"].masks(Ranked.of(row, by_size=False)).tolist() == [[False, True, True]]
        assert ALL["log_odds_negative"].masks(Ranked.of(_row([1.0, 2.0]), by_size=False)) is None
        assert ALL["log_odds_top"].masks(Ranked.of(_row([0.0, 0.0]), by_size=False)) is None

    def test_certainty_is_large_not_zero(self):
        metric = ALL["log_odds_top"]
        sure = metric.value(self.said([[0.5, 0.5]], full=(1.0, 0.0)))
        assert sure == pytest.approx(math.log((1 - 1e-7) / 1e-7))
        assert metric.value(self.said([[1.0, 0.0]], full=(1.0, 0.0))) == 0

    def test_flip_needs_another_class(self):
        parts = [[0.6, 0.4], [0.51, 0.49], [0.4, 0.6], [0.7, 0.3]]
        assert ALL["flip_fraction"].value(self.said(parts)) == 0.75
        assert ALL["flip_fraction"].value(self.said([[0.6, 0.4]] * 4)) == 1.0

    def test_wrong_options(self):
        for make in (
            lambda: module.Sufficiency(k=0),
            lambda: module.Comprehensiveness(k=1.5),
            lambda: module.AopcSufficiency(bins=[]),
            lambda: module.DeletionArea(steps=0),
            lambda: Probe(teachers.teacher("hf", "classification"), tiny.rows(), replace="burn"),
        ):
            with pytest.raises(OptionError):
                make()
        with pytest.raises(UnsupportedError, match="spans"):
            Probe(teachers.teacher("hf", "reading"), teachers.examples("reading"))


def test_equal_questions_are_asked_once():
    teacher, rows = teachers.teacher("hf", "classification"), teachers.examples("classification")
    maps = explain(teacher, rows, "gradient_input")
    probe = Probe(teacher, rows)
    faithfulness([module.DeletionArea(), module.FlipFraction(), module.DeletionArea()], [maps, maps], probe)
    assert probe.masked.passes == sum(len(one) for one in maps)


def test_without_a_mask_token_the_unknown_word_stands_there():
    teacher = teachers.teacher("hf", "classification")
    bare = replace_tokenizer(teacher, mask_token=None)
    assert Probe(bare, tiny.rows()).masked.description == "replaced by [UNK], since there is no mask token"
    barer = replace_tokenizer(teacher, mask_token=None, unk_token=None)
    assert Probe(barer, tiny.rows()).masked.description == "replaced by [PAD], since there is no mask token"


def replace_tokenizer(teacher, **tokens):
    from copy import copy

    found = copy(teacher)
    fast = copy(teacher.tokenizer)
    fast._special_tokens_map = {**fast._special_tokens_map, **tokens}
    object.__setattr__(found, "tokenizer", fast)
    return found


def _row(scores):
    from didact.results.row_explanation import RowExplanation

    count = len(scores)
    return RowExplanation(
        id="r", texts=(" ".join("a" * count),), tokens=("a",) * count, segments=np.zeros(count, dtype=np.int64),
        word_index=np.arange(count), offsets=np.stack([2 * np.arange(count), 2 * np.arange(count) + 1], 1),
        scores=np.array(scores), target="", prediction="", residual=math.nan, kind="signed", method="m",
        task="classification",
    )  # fmt: skip


def test_progress_is_seen_between_few_questions(monkeypatch):
    """The curves of one row are hundreds of questions: rows are counted as they are done, not all at the end."""
    rows = teachers.examples("classification")
    model = teachers.teacher("hf", "classification")
    maps = explain(model, rows, "gradient_norm")
    metrics = [ALL["comprehensiveness"], ALL["deletion_auc"]]
    whole_seen, seen = [], []
    whole = faithfulness(metrics, [maps], Probe(model, rows), done=whole_seen.append)
    monkeypatch.setattr(module, "MAX_MASKED_ROWS", 1)
    single = faithfulness(metrics, [maps], Probe(model, rows), done=seen.append)
    assert (whole_seen, seen) == ([3], [1, 1, 1])
    np.testing.assert_allclose(single, whole, rtol=1e-9)
