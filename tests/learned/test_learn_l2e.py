"""`learn_l2e`: slow explainers become one pass, of every kind of teacher, and say so when they cannot."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import didact
from didact.core.dataset import Dataset, Split
from didact.core.row import Row
from didact.errors import DataError, OptionError, RecordError, TrainingError, UnsupportedError
from didact.explainers.l2e import L2E
from didact.explainers.learned import load_explainer
from didact.explaining.explain import explain
from didact.learned import l2e as module
from didact.learned.l2e import learn_l2e
from didact.learning.l2e import row_losses
from teachers import black_box, examples, teacher

SMALL = {
    "width": 8, "layers": 1, "heads": 2, "training": {"epochs": 2, "batch_size": 4}, "initialisations": 1,
}  # fmt: skip


def learned(school, name="sentiment", imitate="occlusion", **options):
    teacher, data = school(name)
    return learn_l2e(teacher, data, imitate=imitate, **SMALL | options), teacher, data


@pytest.mark.parametrize("formulation", ["labelling", "ranking", "regression"])
@pytest.mark.parametrize("name", ["sentiment", "inference", "quality", "shapes"])
def test_every_task_and_formulation(school, tmp_path, name, formulation):
    found, teacher, data = learned(school, name, "gradient_input", formulation=formulation, out=tmp_path / "mine")
    maps = explain(teacher, data["test"], found)
    assert maps.kind == ("magnitude" if formulation == "ranking" else "signed")
    assert np.abs(maps.scores).sum() > 0
    again = explain(teacher, data["test"], str(tmp_path / "mine"))
    np.testing.assert_array_equal(maps.scores, again.scores)
    metrics = json.loads((tmp_path / "mine" / "metrics.json").read_text())
    assert metrics["train_rows"] + metrics["dev_rows"] == len(data["explain"])
    assert metrics["collect_seconds"] > 0
    assert not (tmp_path / "mine.learning").exists()


def test_one_seed_one_explainer(school):
    first, second, other = (learned(school, seed=seed)[0].learned_weights() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_of_several_networks_the_best_is_kept(school, tmp_path):
    """Each tells what it reached; the one kept errs least on held-out rows, and explains as it did when measured."""
    found, _, _ = learned(school, initialisations=3, out=tmp_path / "mine")
    metrics = found.learned["metrics"]
    losses = [one["dev_loss"] for one in metrics["initialisations"]]
    assert len(set(losses)) == 3
    assert metrics["dev_loss"] == min(losses)
    assert metrics["mean"]["dev_loss"] == pytest.approx(np.mean(losses))
    alone, _, _ = learned(school, initialisations=1)
    assert alone.learned["metrics"]["dev_loss"] == losses[0]
    fewer = [learned(school, initialisations=count)[0] for count in (1, 2)]
    # Among the first one, two and three, whoever is best: the weights are those of that network.
    best = int(np.argmin(losses))
    same = [one for one, count in zip((*fewer, found), (1, 2, 3), strict=True) if np.argmin(losses[:count]) == best]
    for one in same[1:]:
        assert all(torch.equal(one.learned_weights()[name], kept) for name, kept in same[0].learned_weights().items())
    assert L2E.from_pretrained(tmp_path / "mine").learned["metrics"] == metrics
    with pytest.raises(OptionError, match="initialisations"):
        learned(school, initialisations=0)


def test_it_learns(school):
    """With rows enough to know them by heart, its order is that of the weights it imitates."""
    teacher, data = school()
    maps = explain(teacher, data["explain"], "gradient_norm")
    for formulation in ("labelling", "ranking", "regression"):
        found = learn_l2e(
            teacher, data, imitate=maps, formulation=formulation, dev_share=0.5, width=32, layers=2, dropout=0.0,
            training={"epochs": 60, "patience": 60, "batch_size": 5, "rate": 3e-3}, initialisations=1,
        )  # fmt: skip
        losses = [one["loss"] for one in found.learned["epochs"]]
        start = 0.02 if formulation == "regression" else 0.5
        assert losses[-1] < losses[0] * (0.5 if formulation != "ranking" else 0.9), (formulation, losses[0], losses[-1])
        assert losses[0] > start


def test_words(school):
    found, teacher, data = learned(school, level="word")
    maps = explain(teacher, data["test"], found, level="word")
    assert maps.options["level"] == "word"
    assert [len(one) for one in maps] == [len(row.texts[0].split()) for row in data["test"]]


def test_several_at_once(school):
    for combine, count in (("ranks", 1), ("heads", 2)):
        found, teacher, data = learned(school, imitate=["occlusion", "gradient_input"], combine=combine)
        assert len(found.network_spec.imitates) == count
        assert explain(teacher, data["test"], found).kind == "signed"
    assert found.learned["imitates"] == ["occlusion", "gradient_input"]


@pytest.mark.parametrize("combine", ["ranks", "heads"])
def test_signs_do_not_cancel_sizes(school, combine):
    """Of one method with signs and one without, sizes are learned: what both find heavy is heavy."""
    teacher, data = school()
    signed = explain(teacher, data["explain"], "gradient_input")
    sizes = replace(signed, scores=np.abs(signed.scores), kind="magnitude", method="sizes")
    found = learn_l2e(teacher, data, imitate=[signed, sizes], combine=combine, **SMALL)
    assert found.kind == "magnitude"
    assert all(value >= 0 for one in found.network_spec.values for value in one)


def test_options_of_every_method(school):
    found, _, _ = learned(school, imitate="gradient_input(scale=probability)")
    assert found.learned["imitates"] == ["gradient_input(scale=probability)"]


def test_scores_of_another_teacher_are_told(school):
    teacher, data = school()
    maps = explain(teacher, data["explain"], "gradient_input")
    moved = replace(maps, fingerprints=dict(maps.fingerprints) | {"teacher": "0" * 16})
    found = learn_l2e(teacher, data, imitate=moved, **SMALL)
    assert "were computed for another teacher" in found.learned["notes"][0]
    notes = learn_l2e(teacher, data, imitate=maps, **SMALL).learned["notes"]
    assert not any("another teacher" in note for note in notes)


def test_a_set_without_signs_gives_none(school):
    found, teacher, data = learned(school, imitate="gradient_norm")
    maps = explain(teacher, data["test"], found)
    assert maps.kind == "magnitude"
    assert (maps.scores >= 0).all()
    assert len(found.network_spec.values[0]) == 3


@pytest.fixture
def lessons(monkeypatch):
    """What networks were taught with, and what teaching left: (arguments, found), one by one."""
    kept, real = [], module.train_network

    def taught(*given, **options):
        kept.append((given, real(*given, **options)))
        return kept[-1][1]

    monkeypatch.setattr(module, "train_network", taught)
    return kept


def test_a_signed_order(school, lessons):
    """It has a zero: higher scores all over mean something else, which they do not in an order of sizes."""
    found, teacher, data = learned(school, formulation="ranking", signed=True)
    assert explain(teacher, data["test"], found).kind == "signed"
    sizes, _, _ = learned(school, formulation="ranking")
    for one, ((_, _, train, *_), _) in zip((found, sizes), lessons, strict=True):
        rows = train.to(torch.device("cpu"), one.network.head.weight.dtype)
        with torch.no_grad():
            before = row_losses(one, teacher, rows)
            one.network.head.bias += 3.0
            after = row_losses(one, teacher, rows)
        assert torch.allclose(before, after, atol=1e-4) == (one is sizes)


def test_a_score_is_known_by_its_bucket(school, lessons):
    """Fifths of the answers that the teacher gives to the rows it learns from."""
    _, teacher, data = learned(school, "quality", "gradient_input")
    (_, _, train, dev, *_), _ = lessons[0]
    labels = torch.cat([train.labels, dev.labels]).tolist()
    answers = teacher.predict(data["explain"]).values[:, 0]
    edges = np.quantile(answers, [0.2, 0.4, 0.6, 0.8])
    assert sorted(labels) == sorted((answers[:, None] > edges).sum(1).tolist())
    assert sorted(set(labels)) == [0, 1, 2, 3, 4]


def test_the_best_epoch_is_kept(school, lessons):
    """With steps far too long later epochs are worse; the weights are those of the best."""
    found, teacher, _ = learned(school, training={"epochs": 6, "batch_size": 2, "rate": 0.5, "patience": 6})
    (_, _, _, dev, *_), left = lessons[0]
    assert left.kept_epoch.number < len(left.history)
    rows = dev.to(torch.device("cpu"), found.network.head.weight.dtype)
    with torch.no_grad():
        again = float(row_losses(found.eval(), teacher, rows).mean())
    assert again == pytest.approx(left.kept_epoch.dev_loss, rel=1e-4)
    assert again == pytest.approx(min(one.dev_loss for one in left.history), rel=1e-4)


def test_what_the_paper_does(school):
    """Without positions and with words of its own: equal words of a row have equal scores."""
    found, teacher, _ = learned(school, preset="paper", training={"epochs": 1})
    assert not found.positions
    assert found.network_spec.vocabulary is not None
    maps = explain(teacher, [Row("r", ("a good film and a good film",))], found)
    scores = dict.fromkeys(maps[0].tokens)
    assert len(scores) < len(maps[0].tokens)
    for token in scores:
        own = maps[0].scores[[place for place, one in enumerate(maps[0].tokens) if one == token]]
        np.testing.assert_allclose(own, own[0], rtol=1e-5)


def test_a_black_box_reads_words_of_its_own(school):
    _, data = school()
    box = black_box()
    data = Dataset(data.name, data.task, data.splits, ("few", "many"))
    found = learn_l2e(box, data, imitate="occlusion", **SMALL)
    assert found.network_spec.vocabulary
    maps = explain(box, ["a good film that nobodyeversaw"], found)
    assert np.isfinite(maps.scores).all()


def test_it_reads_no_words_at_padding_and_no_other_rows(school):
    """What is explained of a row does not depend on the rows beside it, nor on the label's place."""
    found, teacher, data = learned(school)
    together = explain(teacher, data["test"], found)
    alone = explain(teacher, data["test"][3:4], found)
    np.testing.assert_allclose(together[3].scores, alone[0].scores, atol=1e-5)


def test_the_label_decides(school):
    found, teacher, data = learned(school)
    with torch.no_grad():
        found.network.label.weight[0] += 3.0
    classes = teacher.classes
    first, second = (explain(teacher, data["test"][:4], found, target=one) for one in classes)
    assert not np.allclose(first.scores, second.scores)


@pytest.mark.parametrize("end", [0, -1])
def test_the_label_stands_at_both_ends(school, end):
    """What the network reads at either end is the label, and the other positions are the words."""
    found, teacher, data = learned(school)
    read = []
    found.network.layers[0].register_forward_pre_hook(lambda _, given: read.append(given[0]))
    for one in teacher.classes:
        explain(teacher, data["test"][:1], found, target=one)
    first, second = (states[0] for states in read)
    label = found.network.label.weight[1] - found.network.label.weight[0]
    torch.testing.assert_close((second - first)[end], label)
    torch.testing.assert_close(second[1:-1], first[1:-1])


class TestCollecting:
    def test_goes_on_where_it_was(self, school, tmp_path, monkeypatch):
        teacher, data = school()
        work = module.train_network

        def stopped(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(module, "train_network", stopped)
        with pytest.raises(KeyboardInterrupt):
            learn_l2e(teacher, data, imitate="lime(samples=20)", out=tmp_path / "mine", **SMALL)
        spent = json.loads((tmp_path / "mine.learning" / "cost.json").read_text())["seconds"]["lime(samples=20)"]
        monkeypatch.setattr(module, "train_network", work)
        asked = []
        monkeypatch.setattr("didact.explainers.lime.Lime.forward", lambda *_: asked.append(1))
        found = learn_l2e(teacher, data, imitate="lime(samples=20)", out=tmp_path / "mine", **SMALL)
        assert not asked
        assert found.learned["metrics"]["collect_seconds"] >= spent > 0

    def test_scores_from_a_file(self, school, tmp_path):
        teacher, data = school()
        explain(teacher, data["explain"], "occlusion", out=tmp_path / "scores.parquet")
        given = learn_l2e(teacher, data, imitate=tmp_path / "scores.parquet", **SMALL)
        named = learn_l2e(teacher, data, imitate="occlusion", **SMALL)
        kept = given.learned_weights()
        assert all(torch.equal(kept[name], one) for name, one in named.learned_weights().items())

    def test_tokens_that_do_not_match(self, school):
        teacher, data = school()
        maps = explain(teacher, data["explain"], "occlusion")
        moved = replace(maps, offsets=maps.offsets + np.array([[0, 0]] * (len(maps.offsets) - 1) + [[1, 0]]))
        with pytest.raises(DataError, match="do not match the teacher's tokens"):
            learn_l2e(teacher, data, imitate=moved, **SMALL)
        with pytest.raises(DataError, match="6 of 10 rows to learn from have no explanation.*the split 'explain'"):
            learn_l2e(teacher, data, imitate=maps[:4], **SMALL)

    def test_rows_of_zeros_are_left_out_and_counted(self, school):
        teacher, data = school()
        maps = explain(teacher, data["explain"], "occlusion")
        scores = maps.scores.copy()
        scores[: maps.bounds[3]] = 0
        found = learn_l2e(teacher, data, imitate=replace(maps, scores=scores), **SMALL)
        assert found.learned["metrics"]["skipped_rows"] == 3
        assert "3 of 10 rows were left out" in found.learned["notes"][0]
        with pytest.raises(TrainingError, match="there is nothing to imitate"):
            learn_l2e(teacher, data, imitate=replace(maps, scores=scores * 0), **SMALL)

    def test_explanations_of_other_classes(self, school):
        teacher, data = school()
        contrast = explain(teacher, data["explain"], "gradient_input", target="contrast")
        with pytest.raises(DataError, match="targets that are not classes of the teacher"):
            learn_l2e(teacher, data, imitate=contrast, **SMALL)
        gold = explain(teacher, data["explain"], "gradient_input", target=teacher.classes[0])
        with pytest.raises(OptionError, match="explains other classes"):
            learn_l2e(teacher, data, imitate=[gold, "occlusion"], **SMALL)


class TestRefusals:
    def test_unlearned(self, school):
        teacher, data = school()
        with pytest.raises(OptionError, match="must be learned before"):
            explain(teacher, data["test"], "l2e")
        with pytest.raises(OptionError, match="no learned weights to save"):
            L2E().save_pretrained("nowhere")

    def test_a_method_the_teacher_cannot_run(self, school):
        _, data = school()
        data = Dataset(data.name, data.task, data.splits, ("few", "many"))
        with pytest.raises(UnsupportedError, match="occlusion, lime, kernel_shap"):
            learn_l2e(black_box(), data, imitate="gradient_input", **SMALL)

    def test_spans(self, school):
        teacher, data = school("reading")
        with pytest.raises(UnsupportedError, match="answers spans"):
            learn_l2e(teacher, data, imitate="gradient_input", **SMALL)

    def test_contrasts(self, school):
        found, teacher, data = learned(school)
        with pytest.raises(UnsupportedError, match="the target is a contrast"):
            explain(teacher, data["test"], found, target="contrast")

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"formulation": "guess"}, "formulation must be 'labelling'"),
            ({"combine": "sum"}, "'sum'"),
            ({"preset": "papper"}, "paper"),
            ({"widht": 3}, "width"),
            ({"width": 6, "heads": 4}, "a multiple of heads"),
            ({"size": 10_000}, "Give a size"),
            ({"imitate": []}, "nothing to imitate"),
            ({"imitate": "kernal_shap"}, "kernel_shap"),
            ({"training": {"epoch": 3}}, "epochs"),
            ({"dev_share": 1.0}, "dev_share"),
        ],
    )
    def test_what_cannot_be_asked(self, school, options, said):
        teacher, data = school()
        with pytest.raises((OptionError, didact.errors.UnknownNameError), match=said):
            learn_l2e(teacher, data, **{"imitate": "occlusion"} | SMALL | options)

    def test_another_teacher(self, school):
        found, _, _ = learned(school)
        other, data = school("inference")
        with pytest.raises(OptionError, match="whose classes are"), pytest.warns(match="for another teacher"):
            explain(other, data["test"], found)
        box = black_box()
        box.classes = found.network_spec.classes
        with pytest.raises(OptionError, match="is a black box"):
            explain(box, ["a good film"], found)

    def test_damaged_folders(self, school, tmp_path):
        learned(school, out=tmp_path / "mine")
        config = json.loads((tmp_path / "mine" / "config.json").read_text())
        config["reads"]["dim"] += 1
        (tmp_path / "mine" / "config.json").write_text(json.dumps(config))
        with pytest.raises(RecordError, match="damaged"):
            load_explainer(tmp_path / "mine")

    def test_nan(self, school):
        with pytest.raises(TrainingError, match="learning rate"):
            learned(school, training={"epochs": 3, "rate": 1e30, "clip": 1e30})


def test_few_rows(school):
    teacher, data = school()
    splits = {**data.splits, "explain": Split("explain", data["explain"].rows[:1])}
    with pytest.raises(OptionError, match="at least two rows"):
        learn_l2e(teacher, Dataset(data.name, data.task, splits, data.classes), imitate="occlusion", **SMALL)


def test_in_a_comparison(school, compare, tmp_path):
    """Its folder is an explainer there, and it tells which rows it saw."""
    learned(school, out=tmp_path / "mine")
    found = compare(explainers=[str(tmp_path / "mine"), "lexicon"])
    assert {"mine", "lexicon"} <= set(found.explainers)
    assert not found.failed
    assert any("learned from the teacher's answers to 10 rows" in note for note in found.notes)


class TestWarnings:
    def test_few_rows_are_warned_of_and_noted(self, school):
        with pytest.warns(module.ImitationWarning, match=r"L2E imitates occlusion with ρ = .* too few rows; use 500"):
            found, _, _ = learned(school)
        assert found.learned["notes"][-1].startswith("L2E imitates occlusion")

    @pytest.mark.parametrize(
        ("spearman", "rows", "wanted"),
        [
            (0.9, 49, "ρ = 0.90 on 4 held-out rows: too few rows; use 500 or more."),
            (0.07, 100, "ρ = 0.07 on 4 held-out rows: too few rows; use 500 or more."),
            (0.49, 500, "ρ = 0.49 on 4 held-out rows: do not use it."),
            (None, 500, "a rank correlation that cannot be computed on 4 held-out rows"),
            (0.5, 50, None),
            (0.9, 5000, None),
        ],
    )
    def test_what_is_warned_of(self, spearman, rows, wanted):
        metrics = {"dev_spearman": spearman, "dev_rows": 4, "train_rows": rows - 4}
        found = module.imitation_warning(["occlusion"], metrics)
        assert found is None if wanted is None else wanted in found


@pytest.mark.parametrize("formulation", ["labelling", "ranking", "regression"])
def test_of_two_imitated_explainers_each_counts_the_same(formulation):
    """Each is scaled to a largest score of 1 before their mean: one with larger scores is not louder."""
    subject, rows = teacher("native", "classification"), examples("classification")
    explainer = L2E(formulation=formulation)
    values = [[-2.0, -1.0, 0.0, 1.0, 2.0], [-9.0, -4.0, 0.0, 4.0, 9.0]]
    explainer.start(subject, rows, imitates=["one", "other"], is_signed=True)
    explainer.set_values(torch.tensor(values))
    batch = subject.encode(rows)
    size = 5 if formulation == "labelling" else 1
    outputs = torch.randn(*batch.tokens.shape, 2, size, generator=torch.Generator().manual_seed(0))
    outputs[..., 1, :] *= 5.0
    scores = explainer.scores(outputs, batch.units)
    parts = []
    for index in (0, 1):
        alone = L2E(formulation=formulation)
        alone.start(subject, rows, imitates=["one"], is_signed=True)
        alone.set_values(torch.tensor(values[index : index + 1]))
        part = alone.scores(outputs[:, :, index : index + 1], batch.units)
        parts.append(part / part.abs().amax(1, keepdim=True))
    np.testing.assert_allclose(scores.detach(), (parts[0] + parts[1]).detach() / 2, atol=1e-6)
