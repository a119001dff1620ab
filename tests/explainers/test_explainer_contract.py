"""What every explainer promises, for every method with every task it supports, and with every kind of model."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from didact.core.feature_groups import feature_groups
from didact.errors import DidactError, UnsupportedError
from didact.explainers import EXPLAINERS, contract
from didact.explainers.build import build_explainer
from pairwise import pairwise, thinned
from teachers import KINDS, black_box, examples, teacher

# Small enough for hand-sized models.
OPTIONS: dict[str, dict[str, object]] = {
    "smooth_gradient": {"samples": 4},
    "gradient_shap": {"samples": 8, "background": 4},
    "layer_conductance": {"steps": 4},
    "deep_shap": {"background": 4},
    "lime": {"samples": 32},
    "kernel_shap": {"samples": 32},
    "shapley_sampling": {"permutations": 4},
    "blend": {"members": "occlusion + lime(samples=32)"},
}
# They change the scores of another method by one function each, and share the rest of their code.
VARIANTS = {"degraded", "tempered", "ranked", "scaled", "blurred", "top"}
SEEDED = {
    "random",
    "degraded",
    "leak_count",
    "smooth_gradient",
    "gradient_shap",
    "deep_shap",
    "lime",
    "kernel_shap",
    "shapley_sampling",
}
SELF_ATTENTION = {"attention_rollout", "attention_flow", "attention_alignment", "value_zeroing"}
READS_ATTENTION = {name for name, entry in EXPLAINERS.items() if entry.needs == "attention"}
# method -> the models (or tasks) that have not what it needs, and why
REFUSED = {
    "trivial": ({"regression", "reading"}, "there is no class to give away"),
    "leak_count": ({"regression", "reading"}, "there is no class to give away"),
    "attention": ({"hf", "native", "bilstm", "cnn"}, "only models that pool by attention have one of their own"),
    "human": ({"image"}, "the tiny images have no rationale"),
    "truth": ({"image", "reading"}, "true scores are those of words, for a class or a score"),
    "l2e": ({"reading"}, "there is no class or score to explain"),
    "lexicon": ({"image", "reading"}, "patches are no words, and answers no classes"),
    "attention_alignment": ({"classification", "pair", "regression", "image"}, "there is no question to align"),
}


def is_refused(name: str, kind: str, task: str) -> bool:
    if {kind, task} & REFUSED.get(name, (set(), ""))[0]:
        return True
    if kind in ("bilstm", "cnn") and name in READS_ATTENTION:
        return True
    return kind in ("bilstm_attention", "pool") and name in SELF_ATTENTION


ONE_OF_EACH = (("hf", "classification"), ("native", "pair"), ("bilstm", "regression"), ("native", "image"))
CASES = pairwise(
    (name, kind, task) for name in EXPLAINERS for kind, tasks in KINDS.items() for task in tasks
    if not is_refused(name, kind, task) and (name not in VARIANTS or name == "degraded")
) + [(name, kind, task) for name in sorted(VARIANTS - {"degraded"}) for kind, task in ONE_OF_EACH]  # fmt: skip
NOT_SERVED = [
    (name, kind, task) for name in EXPLAINERS for kind, tasks in KINDS.items() for task in tasks
    if is_refused(name, kind, task)
]  # fmt: skip


def prepared(name, subject, **options):
    """Makes the explainer anew, prepared with the rows it is given: word counts and other images come from them."""

    def make(rows):
        built = build_explainer(name, **OPTIONS.get(name, {}) | options).explainer
        if name == "l2e":  # it must be learned; first weights have to keep the contract, too
            begin(built, subject, rows)
        built.prepare(subject, rows)
        return built

    return make


def rows_for(name, subject, task):
    """The rows of a task. The true scores that `truth` reads speak for a label: here for the predicted class."""
    rows = examples(task)
    if name != "truth" or task in REFUSED["truth"][0]:
        return rows
    labels = subject.predict(rows).labels.tolist() if subject.task.has_classes else [row.label for row in rows]
    return [replace(row, label=label, rationale_weights=(2.0,)) for row, label in zip(rows, labels, strict=True)]


def explained(name, subject, rows, **options):
    return contract.explain_rows(prepared(name, subject, **options), subject, rows)


def begin(built, subject, rows):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        built.start(subject, rows, imitates=["occlusion"], is_signed=True)
    built.set_values(torch.tensor([[-2.0, -1.0, 0.0, 1.0, 2.0]]))


def broken(seen):
    return {name: what for name, what in seen.items() if what not in ("", contract.NOT_APPLICABLE)}


def assert_alone_is_batched(name, subject, rows, tolerance):
    batch = subject.encode(rows)
    assert len(set(batch.lengths.tolist())) > 1 or batch.pixels is not None
    assert contract.compare_rows_alone(prepared(name, subject), subject, rows, tolerance=tolerance) == ""


@pytest.mark.parametrize(("name", "kind", "task"), CASES)
def test_every_explainer(name, kind, task):
    subject = teacher(kind, task)
    rows = rows_for(name, subject, task)
    seen = contract.check_promises(prepared(name, subject), subject, rows, kind=EXPLAINERS[name].kind)
    assert broken(seen) == {}
    kept = {promise for promise, what in seen.items() if what == ""}
    assert kept >= set(contract.PROMISES) - {"range", "content", "residual"}, "every promise was looked at"
    assert all(parameter.requires_grad for parameter in subject.parameters())


def test_every_registered_name_says_in_one_line_what_its_scores_are():
    for name, entry in EXPLAINERS.items():
        assert 20 <= len(entry.about) <= 110, name
        assert entry.about[0].islower(), name
        assert not entry.about.endswith("."), name


@pytest.mark.parametrize(("name", "kind"), thinned(
    (name, kind) for name in EXPLAINERS for kind in ("hf", "native", "bilstm_attention")
    if not is_refused(name, kind, "classification")
))  # fmt: skip
def test_alone_is_batched_in_single_precision(name, kind):
    subject = teacher(kind, "classification", torch.float32)
    assert_alone_is_batched(name, subject, rows_for(name, subject, "classification"), 1e-4)


@pytest.mark.parametrize(("name", "kind", "task"), NOT_SERVED)
def test_what_cannot_be_served_is_refused_with_advice(name, kind, task):
    with pytest.raises(UnsupportedError, match="Choose|choose"):
        explained(name, teacher(kind, task), examples(task))


def test_every_registered_name_is_in_the_suite():
    assert {name for name, _, _ in CASES} == set(EXPLAINERS)
    for name in EXPLAINERS:
        served = {task for one, _, task in CASES if one == name}
        refused = REFUSED.get(name, (set(), ""))[0]
        assert served | refused >= {"classification", "pair", "regression"}, name


@pytest.mark.parametrize("name", sorted(SEEDED))
def test_another_seed_gives_other_scores(name):
    subject, rows = teacher("hf", "classification"), examples("classification")
    # Few enough samples that nothing is enumerated.
    few = {"kernel_shap": {"samples": 16}}.get(name, {})
    first, _ = explained(name, subject, rows, seed=0, **few)
    second, _ = explained(name, subject, rows, seed=1, **few)
    assert not torch.equal(first.scores, second.scores)


@pytest.mark.parametrize("name", [name for name in EXPLAINERS if name not in VARIANTS or name == "degraded"])
@pytest.mark.parametrize("task", ["classification", "pair", "regression", "image"])
def test_black_boxes_get_perturbations_and_controls_and_a_refusal_for_the_rest(name, task):
    subject = black_box(task)
    rows = rows_for(name, subject, task)
    needs = EXPLAINERS[name].needs
    if needs in ("gradients", "attention"):
        with pytest.raises(UnsupportedError, match="occlusion, lime, kernel_shap"):
            explained(name, subject, rows)
        return
    if task in REFUSED.get(name, (set(), ""))[0] or (name, task) == ("l2e", "image"):
        with pytest.raises(UnsupportedError):
            explained(name, subject, rows)
        return
    found, batch = explained(name, subject, rows)
    assert found.scores.isfinite().all()
    assert (found.scores[~batch.units] == 0).all()
    # Where there is no teacher to say so, the network computes in single precision.
    assert_alone_is_batched(name, subject, rows, 1e-4 if name == "l2e" else 1e-8)


@pytest.mark.parametrize("name", [name for name, entry in EXPLAINERS.items() if entry.needs == "predictions"])
@pytest.mark.parametrize("kind", ["hf", "native"])
def test_words_are_taken_away_whole_and_words_of_two_texts_never_merge(name, kind):
    """Both texts hold the same word at the same place: they are two players."""
    if name in ("trivial", "leak_count", "blend", "lexicon") or name in VARIANTS:
        pytest.skip("takes nothing away, or its members or its base do; or a word has one score wherever it stands")
    from didact.core.row import Row

    subject = teacher(kind, "pair")
    rows = [Row("same", ("unbelievable film", "unbelievable film"))]
    batch = subject.encode(rows)
    players = feature_groups(batch, level="word")
    assert players.max() == 3, "four words, two in each text"
    found, _ = explained(name, subject, rows, level="word")
    scored = (found.scores[0] != 0).nonzero()[:, 0]
    assert len(scored) == 4, "one score per word, on its first piece"
    assert len(set(found.scores[0, scored].tolist())) == 4, "and the same word is not the same player twice"


def test_a_user_may_pass_any_callable():
    from didact.core.explanation import Explanation
    from didact.explaining.explain import explain

    def lengths(subject, batch, target):  # noqa: ARG001
        size = (batch.offsets[..., 1] - batch.offsets[..., 0]) * batch.units
        return Explanation(size.double(), batch.mask, batch.units, "magnitude")

    maps = explain(teacher("hf", "classification"), ["a good film"], lengths)
    assert maps.method == "lengths"
    np.testing.assert_array_equal(maps.scores, [1, 4, 4])
    with pytest.raises(DidactError, match="samples"):
        explain(teacher("hf", "classification"), ["a good film"], lengths, samples=3)
