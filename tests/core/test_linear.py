"""The contributions of linear teachers are Shapley values by definition, and explainers find them."""

import re
from itertools import combinations
from math import factorial

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import SVC, LinearSVC

import didact
from didact.core.row import Row
from didact.core.words import words_of
from didact.errors import OptionError, UnsupportedError

TEXTS = [
    "A good film, a good cast.", "bad jokes and a bad end", "good fun, it's fun", "dull. Bad!", "a grey day",
    "grey sea, good day",
]  # fmt: skip
ROWS = [Row("a", ("Good film; good day?",)), Row("b", ("a Bad sea, it's BAD bad",)), Row("c", ("unseen words",))]


def pipeline(classifier=None, classes=2, **options):
    vectorizer = CountVectorizer(**{"binary": True} | options)
    return make_pipeline(vectorizer, LogisticRegression() if classifier is None else classifier).fit(
        TEXTS, [n % classes for n in range(6)]
    )


def shapley(teacher, row):
    """By definition: the mean over all orders of the change of the logits when a word comes back."""
    words = words_of(row.texts)
    subsets = [chosen for size in range(len(words) + 1) for chosen in combinations(range(len(words)), size)]
    logits = dict(zip(subsets, teacher.predict(
        [teacher.without(row, [word for index, word in enumerate(words) if index not in chosen]) for chosen in subsets]
    ).values, strict=True))  # fmt: skip
    values, count = np.zeros((len(words), len(teacher.classes))), len(words)
    for chosen in subsets:
        for index in set(range(count)) - set(chosen):
            share = factorial(len(chosen)) * factorial(count - len(chosen) - 1) / factorial(count)
            values[index] += share * (logits[tuple(sorted((*chosen, index)))] - logits[chosen])
    return values, logits[()]


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(
    ("classifier", "classes"),
    [(LogisticRegression(), 2), (LogisticRegression(), 3), (LinearSVC(), 2), (LinearSVC(), 3), (RidgeClassifier(), 3)],
)
def test_contributions_are_shapley_values(classifier, classes, binary):
    model = pipeline(classifier, classes, binary=binary)
    teacher = didact.teacher_from_sklearn(model)
    decision = model.decision_function([row.texts[0] for row in ROWS])
    logits = teacher.predict(ROWS).values
    np.testing.assert_allclose(logits[:, 1] - logits[:, 0] if classes == 2 else logits, decision, atol=1e-12)
    for row, answer in zip(ROWS, logits, strict=True):
        exact = teacher.contributions(row)
        values, base = shapley(teacher, row)
        assert [row.text_of(span) for span in exact.spans] == [row.text_of(span) for span in words_of(row.texts)]
        np.testing.assert_allclose(exact.values, values, atol=1e-12)
        np.testing.assert_allclose(exact.base, base, atol=1e-12)
        np.testing.assert_allclose(exact.base + exact.values.sum(0), answer, atol=1e-12)


def test_a_word_that_counts_once_is_shared_by_its_occurrences():
    once, each = (didact.teacher_from_sklearn(pipeline(binary=binary)) for binary in (True, False))
    row = ROWS[1]
    weight = {binary: teacher.weights["bad"] for binary, teacher in ((True, once), (False, each))}
    places = [index for index, span in enumerate(words_of(row.texts)) if row.text_of(span).lower() == "bad"]
    assert len(places) == 3
    np.testing.assert_allclose(once.contributions(row).values[places], np.tile(weight[True] / 3, (3, 1)))
    np.testing.assert_allclose(each.contributions(row).values[places], np.tile(weight[False], (3, 1)))


@pytest.mark.parametrize("target", ["predicted", "contrast", "no"])
def test_exact_kernel_shap_finds_the_contributions(target):
    """On the logits: all subsets of a short row. Occlusion, too, where every term counts each time."""
    teacher = didact.teacher_from_sklearn(pipeline(classes=3), ["yes", "no", "maybe"])
    truth = didact.explain(teacher, ROWS, "truth", target=target)
    found = didact.explain(teacher, ROWS, "kernel_shap(samples=1024)", target=target)
    assert truth.targets == found.targets
    np.testing.assert_allclose(found.scores, truth.scores, atol=1e-9)
    counted = didact.teacher_from_sklearn(pipeline(classes=3, binary=False), ["yes", "no", "maybe"])
    truth, found = (didact.explain(counted, ROWS, name, target=target) for name in ("truth", "occlusion"))
    np.testing.assert_allclose(found.scores, truth.scores, atol=1e-12)


def test_a_function_of_probabilities_is_explained_by_its_log_odds():
    """What `teacher_from_function` cannot say as a logit, it says as a contrast of log-probabilities."""
    model = pipeline()
    teacher = didact.teacher_from_sklearn(model, ["no", "yes"])
    function = didact.teacher_from_function(model.predict_proba, ["no", "yes"], absent=" ")
    with pytest.raises(OptionError, match="returns probabilities, not logits"):
        didact.explain(function, ROWS, "kernel_shap", scale="logit")
    found = didact.explain(function, ROWS, "kernel_shap(samples=1024)", target="contrast", scale="log_probability")
    truth = didact.explain(teacher, ROWS, "truth", target="contrast")
    np.testing.assert_allclose(found.scores, truth.scores, atol=1e-9)
    values = [teacher.contributions(row).values for row in ROWS]
    signs = np.where(teacher.predict(ROWS).labels == 1, 1, -1)
    difference = np.concatenate([sign * (value[:, 1] - value[:, 0]) for sign, value in zip(signs, values, strict=True)])
    np.testing.assert_allclose(truth.scores, difference, atol=1e-12)


def test_removal_never_joins_words():
    """Without its apostrophe, `it's` stays two words, not the word `its`."""
    model = make_pipeline(CountVectorizer(binary=True), LogisticRegression()).fit(["its good", "bad it"], [1, 0])
    teacher = didact.teacher_from_sklearn(model)
    row = Row("a", ("it's good",))
    apostrophe = words_of(row.texts)[1]
    np.testing.assert_array_equal(
        teacher.predict([teacher.without(row, [apostrophe])]).values, teacher.predict([row]).values
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_pipeline(TfidfVectorizer(), LogisticRegression()), "Tf-idf divides .* CountVectorizer"),
        (lambda: make_pipeline(CountVectorizer(), TfidfTransformer(), LogisticRegression()), "Tf-idf divides"),
        (lambda: make_pipeline(CountVectorizer(), MaxAbsScaler(), LogisticRegression()), "two steps, .*MaxAbsScaler"),
        (lambda: make_pipeline(HashingVectorizer(n_features=16), LogisticRegression()), "and is a Hashing"),
        (lambda: pipeline(ngram_range=(1, 2)), re.escape("ngram_range=(1, 2) (needed: (1, 1))")),
        (lambda: pipeline(analyzer="char"), "analyzer='char'"),
        (lambda: pipeline(tokenizer=str.split, token_pattern=None), "tokenizer="),
        (lambda: pipeline(token_pattern=r"\S+"), "joins or cuts words"),
        (lambda: pipeline(RandomForestClassifier(n_estimators=2)), "no fitted linear classifier"),
        (lambda: pipeline(SVC(kernel="linear"), classes=3), "decision values of SVC are not"),
        (lambda: (CountVectorizer().fit(TEXTS), LogisticRegression()), "no fitted linear classifier"),
        (LogisticRegression, "two steps"),
    ],
)  # fmt: skip
def test_what_is_not_exact_is_refused(make, message):
    subject = make()
    if hasattr(subject, "steps") and not hasattr(subject[-1], "classes_"):
        subject.fit(TEXTS, [0, 1] * 3)
    with pytest.raises(UnsupportedError, match=message):
        didact.teacher_from_sklearn(subject)


@pytest.mark.usefixtures("unchecked")
def test_options_are_checked():
    with pytest.raises(OptionError, match="not fitted"):
        didact.teacher_from_sklearn((CountVectorizer(), LogisticRegression()))
    with pytest.raises(OptionError, match="names 3 classes, and the classifier has 2: 0, 1"):
        didact.teacher_from_sklearn(pipeline(), ["a", "b", "c"])
    with pytest.raises(OptionError, match="between two classes"):
        didact.teacher_from_lexicon({"good": 1.0}, ["a"])
    with pytest.raises(OptionError, match="must be numbers, got good='x'"):
        didact.teacher_from_lexicon({"good": "x"})
    with pytest.raises(OptionError, match="finite"):
        didact.teacher_from_lexicon({"good": np.inf})
    with pytest.raises(OptionError, match=re.escape("2 of 3 entries are not single words, such as :), not good")):
        didact.teacher_from_lexicon({"good": 1.0, ":)": 2.0, "not good": -1.0})
    with pytest.raises(OptionError, match="differ only in case"):
        didact.teacher_from_lexicon({"good": 1.0, "Good": 2.0})


def test_words_that_the_model_reads_otherwise_are_an_error():
    """An accent of its own is a sign between two words for didact, and nothing for this vectorizer."""
    teacher = didact.teacher_from_sklearn(pipeline(strip_accents="unicode"))
    teacher.contributions(ROWS[0])
    with pytest.raises(UnsupportedError, match="words of row 'x' are not those that teacher"):
        teacher.contributions(Row("x", ("goo\N{COMBINING ACUTE ACCENT}d",)))


def test_a_lexicon_adds_up():
    teacher = didact.teacher_from_lexicon({"good": 2.0, "Bad": -3.0, "!": 0.5}, threshold=0.25, scale=2.0)
    row = Row("a", ("Good, good or bad!",))
    probabilities = teacher.predict([row, Row("b", ("nothing",))]).probabilities[:, 1]
    np.testing.assert_allclose(probabilities, 1 / (1 + np.exp(-2 * (np.array([1.5, 0.0]) - 0.25))))
    exact = teacher.contributions(row)
    np.testing.assert_allclose(exact.values[:, 1] - exact.values[:, 0], [4, 0, 4, 0, -6, 1])
    np.testing.assert_allclose(exact.values, shapley(teacher, row)[0], atol=1e-12)
    cased = didact.teacher_from_lexicon({"good": 2.0}, lowercase=False)
    assert cased.contributions(row).values[:, 1].tolist() == [0, 0, 1, 0, 0, 0]


def test_the_lexicon_of_vader():
    vader = pytest.importorskip("vaderSentiment.vaderSentiment")
    words = {word: weight for word, weight in vader.SentimentIntensityAnalyzer().lexicon.items() if word.isalpha()}
    teacher = didact.teacher_from_lexicon(words)
    assert len(words) > 7_000
    assert teacher.predict(["a great film", "a horrible film"]).labels.tolist() == [1, 0]
    exact = teacher.contributions(Row("a", ("a great film",)))
    np.testing.assert_allclose((exact.values[:, 1] - exact.values[:, 0])[1], words["great"])
