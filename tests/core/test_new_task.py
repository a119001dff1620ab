"""A new task is one file: this one defines a task and takes it from training to explanations, changing nothing else."""

from typing import ClassVar

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

import didact
from didact.core.dataset import Dataset, Split
from didact.core.function import FunctionTeacher
from didact.core.human import HumanTeacher
from didact.core.measure import agreement, measure
from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.target import Target
from didact.core.task import CLASSIFICATION, TASKS, Task, task_named
from didact.core.tasks.classification import Classification
from didact.data.load import load_data
from didact.learning.train import save_teacher, train_teacher
from didact.models.load import load_teacher
from didact.results.task_kinds import TASK_KINDS, task_kind


class Tagging(Classification):
    """Several classes at once: each is judged by itself, and holds where its logit is above 0."""

    measure: ClassVar[str] = "macro_f1"
    activation: ClassVar[str] = "sigmoid"
    problem_type: ClassVar[str | None] = "multi_label_classification"

    def probabilities(self, values):
        return 1 / (1 + np.exp(-values))

    def logits_of(self, probabilities):
        if ((probabilities < 0) | (probabilities > 1)).any():
            raise ValueError("is not between 0 and 1")
        clipped = probabilities.clip(1e-6, 1 - 1e-6)
        return np.log(clipped / (1 - clipped))

    def format_answers(self, outputs, classes):
        return [
            ", ".join(name for name, value in zip(classes, row, strict=True) if value > 0) for row in outputs.values
        ]

    def training_targets(self, outputs, batch, *, soft=False):  # noqa: ARG002
        return torch.from_numpy(outputs.probabilities if soft else (outputs.values > 0).astype(np.float64))

    def loss(self, logits, goal):
        return binary_cross_entropy_with_logits(logits, goal.to(logits.dtype), reduction="none").sum(-1)

    def agreement(self, answers, reference):
        """The share of classes that are judged alike."""
        return ((answers.values > 0) == (reference.values > 0)).mean(axis=1)

    def overall(self, answers, reference, *, balanced=False):  # noqa: ARG002
        """The mean of the F1s of all classes."""
        first, second = answers.values > 0, reference.values > 0
        return float(np.mean(2 * (first & second).sum(0) / np.maximum(first.sum(0) + second.sum(0), 1)))

    def knows(self, row, classes):  # noqa: ARG002
        return isinstance(row.label, tuple)

    def gold(self, rows, classes):
        values = np.array([[30.0 if index in row.label else -30.0 for index in range(len(classes))] for row in rows])
        return Outputs(self, tuple(row.id for row in rows), values.reshape(len(rows), -1), classes=classes)


TAGGING = Tagging("tagging", ("text",), fewest_texts=1)
CLASSES = ("fish", "bird", "tree")
WORDS = (("trout", "salmon"), ("robin", "eagle"), ("oak", "birch"))
OTHERS = ("we", "saw", "it", "near", "the", "house", "today")


@pytest.fixture(autouse=True)
def listed(monkeypatch):
    """The line in the table."""
    monkeypatch.setitem(TASKS, "tagging", TAGGING)


def drawn(count: int, seed: int) -> list[Row]:
    """Texts about some of three things, or none; a word for each."""
    dice, rows = np.random.default_rng(seed), []
    for number in range(count):
        label = tuple(index for index in range(3) if dice.random() < 0.5)
        words = [*(dice.choice(WORDS[index]) for index in label), *dice.choice(OTHERS, 4)]
        rows.append(Row(f"{seed}-{number}", (" ".join(dice.permutation(words)),), label=label))
    return rows


@pytest.fixture(scope="module")
def data() -> Dataset:
    sizes = {"teach": 240, "dev": 60, "test": 60}
    splits = {name: Split(name, drawn(size, seed)) for seed, (name, size) in enumerate(sizes.items())}
    return Dataset("tags", TAGGING, splits, CLASSES)


@pytest.fixture(scope="module")
def teacher(data):
    return train_teacher(data, "native(layers=1, width=16, heads=2)", epochs=20, learning_rate=1e-2, progress=False)


def test_a_native_model_learns_it_and_its_answers_are_measured(teacher, data):
    assert teacher.record["metrics"]["test_macro_f1"] > 0.95
    gold = HumanTeacher(TAGGING, CLASSES).predict(data["test"].rows)
    answers = teacher.predict(data["test"].rows)
    rows = agreement(answers, gold)
    assert rows.shape == (60,)
    assert set(np.round(rows * 3)) <= {0, 1, 2, 3}
    assert measure(answers, gold) == pytest.approx(teacher.record["metrics"]["test_macro_f1"], abs=1e-6)
    np.testing.assert_allclose(answers.probabilities, 1 / (1 + np.exp(-answers.values)))


@pytest.mark.parametrize("method", ["gradient_input", "occlusion", "integrated_gradients"])
def test_one_of_several_classes_is_explained(teacher, method):
    row = Row("both", ("we saw the trout near the eagle",), label=(0, 1))
    for target, word in (("fish", "trout"), ("bird", "eagle")):
        words = didact.explain(teacher, [row], method, target=target)[0].words()
        assert words.tokens[words.scores.argmax()] == word
    (explained,) = didact.explain(teacher, [row], method)
    assert explained.prediction == "fish, bird"
    assert explained.label == "fish, bird"


def test_a_probability_is_that_of_the_class_by_itself(teacher, data):
    rows = data["test"].rows[:8]
    maps = didact.explain(teacher, rows, "occlusion", target="bird", scale="probability")
    batch = teacher.encode(rows)
    with torch.no_grad():
        logits = teacher(batch).logits
    target = Target.label(torch.ones(8, dtype=torch.long), scale="probability", activation=TAGGING.activation)
    torch.testing.assert_close(target.of(logits), logits[:, 1].sigmoid())
    assert max(abs(row.scores).max() for row in maps) <= 1
    strongest = np.array([row.probability for row in maps])
    np.testing.assert_allclose(strongest, logits.sigmoid().amax(-1).numpy(), rtol=1e-5)


def test_faithfulness_and_explanations_on_disk(teacher, data, tmp_path):
    rows = data["test"].rows[:12]
    maps = didact.explain(teacher, rows, "occlusion")
    frame = didact.evaluate(maps, teacher, rows, metrics=["comprehensiveness(k=0.2)"])
    drop = frame.set_index("method").value
    assert drop["occlusion"] > drop["random"]
    maps.save(tmp_path / "maps.parquet")
    assert didact.Explanations.load(tmp_path / "maps.parquet").task == "tagging"
    assert not maps.is_image
    assert maps[0].heat_map().texts[0][0] == "text"


def test_a_kept_model_and_a_function_do_it_too(teacher, data, tmp_path):
    rows = data["test"].rows[:5]
    save_teacher(teacher, tmp_path / "model")
    np.testing.assert_allclose(load_teacher(tmp_path / "model").predict(rows).values, teacher.predict(rows).values)

    def answer(texts):
        return [[float(any(word in text for word in words)) for words in WORDS] for text in texts]

    function = FunctionTeacher(answer, CLASSES, task="tagging")
    (words,) = didact.explain(function, ["an oak and a robin"], "occlusion", target="tree").top(1)
    assert words[0][0] == "oak"


def test_a_file_of_texts_is_still_taken_for_classification(tmp_path):
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(f"row {n},{n % 2}\n" for n in range(40)))
    assert load_data(tmp_path / "rows.csv").task is CLASSIFICATION


def test_names_of_tasks_to_come_are_still_refused():
    assert task_named("tagging") is TAGGING
    with pytest.raises(didact.errors.UnsupportedError):
        task_named("multilabel")


def test_what_results_know_of_each_task_is_what_the_task_says():
    for name, task in TASKS.items():
        assert isinstance(task, Task)
        assert task_kind(name) == TASK_KINDS[name]
        assert (task_kind(name).segments, task_kind(name).has_alignments) == (task.segments, task.has_alignments)
