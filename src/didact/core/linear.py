"""`LinearTeacher`: black boxes whose logits are sums over words, so that the contribution of every word is known.

`teacher_from_sklearn` makes one of a scikit-learn pipeline, `teacher_from_lexicon` of a list of word weights.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from didact.core.function import FunctionTeacher
from didact.core.row import Row
from didact.core.truth import Contributions
from didact.core.words import words_of
from didact.errors import OptionError, UnsupportedError

_TOLERANCE: Final = 1e-6
# Words of all kinds: a vectorizer that cuts it at other words than didact does is refused.
_PROBE: Final = "It's a well-known film: 3rd-rate actors, naïve jokes (but 10 good ones)!"


class LinearTeacher(FunctionTeacher):
    """A black box whose logits are a constant plus the weights of the words of the text.

    `features` gives the terms of one word, `weights` the weight of each term for each class; terms without weights
    count nothing. With `binary`, a term counts once however often it occurs. A removed word is replaced by a space, so
    that its neighbours never join.
    """

    def __init__(
        self,
        logits: Callable[[list[str]], Float[np.ndarray, "row class"]],
        classes: Sequence[str],
        *,
        features: Callable[[str], Sequence[str]],
        weights: Mapping[str, Float[np.ndarray, " class"]],
        base: Float[np.ndarray, " class"],
        binary: bool,
        name: str,
    ) -> None:
        super().__init__(logits, classes, output="logit", absent=" ", name=name)
        self.features, self.weights, self.base, self.binary = features, weights, base, binary

    def contributions(self, row: Row) -> Contributions:
        """The exact contribution of each word to the logit of each class.

        It is the Shapley value of the word: what its removal changes, averaged over all orders in which the words of
        the row can be removed. Where a term counts once, all words that contain it share its weight equally. For two
        classes the logits are minus and plus half the decision value, so that their difference is the decision value.

        Raises:
            UnsupportedError: the words of this row are not those that the model reads.
        """
        spans = words_of(row.texts)
        terms = [[term for term in self.features(row.text_of(span)) if term in self.weights] for span in spans]
        words_with = Counter(term for word_terms in terms for term in set(word_terms))
        values = np.zeros((len(spans), len(self.base)))
        for index, word_terms in enumerate(terms):
            for term in set(word_terms) if self.binary else word_terms:
                values[index] += self.weights[term] / (words_with[term] if self.binary else 1)
        answer = self.predict([row]).values[0]
        total = self.base + values.sum(0)
        if not np.allclose(total, answer, rtol=_TOLERANCE, atol=_TOLERANCE):
            raise UnsupportedError(
                f"The words of row {row.id!r} are not those that teacher {self.name!r} reads, so their contributions "
                f"are unknown: they add up to {total}, and its logits are {answer}. Leave the row out."
            )
        return Contributions(tuple(spans), values, self.base)


def teacher_from_sklearn(pipeline: Any, classes: Sequence[str] | None = None, *, name: str = "") -> LinearTeacher:
    """A teacher from a fitted scikit-learn pipeline of a `CountVectorizer` and a linear classifier.

    The contribution of every word to its answers is known exactly: `teacher.contributions(row)`, and the explainer
    `truth`. The vectorizer counts single words, with `binary=True` or without. The classifier has `coef_`, as
    `LogisticRegression` and `LinearSVC` have. Logits are its decision values; for two classes, minus and plus half of
    them. Tf-idf is refused: it divides by the length of the text, so removing one word changes what the others add.

    Args:
        pipeline: The pipeline, fitted, or a pair of vectorizer and classifier.
        classes: Class names in the order of the classifier's `classes_` (default: these).
        name: The name of the teacher (default: that of the classifier's class).

    Examples:
        ```python
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        texts = ["a good film", "a bad film", "good fun", "bad jokes"]
        pipeline = make_pipeline(CountVectorizer(binary=True), LogisticRegression()).fit(texts, [1, 0, 1, 0])
        teacher = didact.teacher_from_sklearn(pipeline, ["negative", "positive"])
        didact.explain(teacher, ["good jokes"], "truth").show()
        ```
    """
    vectorizer, classifier = _steps(pipeline)
    _check_vectorizer(vectorizer)
    coefficients, intercept = _linear_parts(classifier, len(vectorizer.vocabulary_))
    if classes is not None and len(classes) != len(classifier.classes_):
        raise OptionError(
            f"classes= names {len(classes)} classes, and the classifier has {len(classifier.classes_)}: "
            f"{', '.join(map(str, classifier.classes_))}."
        )
    # The decision value of two classes is the difference of their logits.
    halves = np.array([[-0.5], [0.5]]) if len(coefficients) == 1 else None
    coefficients = coefficients if halves is None else halves @ coefficients
    base = intercept if halves is None else halves @ intercept

    def logits(texts: list[str]) -> Float[np.ndarray, "row class"]:
        decision = np.asarray(classifier.decision_function(vectorizer.transform(texts)), dtype=np.float64)
        return decision if halves is None else decision.reshape(-1, 1) @ halves.T

    return LinearTeacher(
        logits,
        tuple(map(str, classifier.classes_ if classes is None else classes)),
        features=vectorizer.build_analyzer(),
        weights={term: coefficients[:, column] for term, column in vectorizer.vocabulary_.items()},
        base=base,
        binary=bool(vectorizer.binary),
        name=name or type(classifier).__name__,
    )


def teacher_from_lexicon(
    weights: Mapping[str, float],
    classes: Sequence[str] = ("negative", "positive"),
    *,
    threshold: float = 0.0,
    scale: float = 1.0,
    lowercase: bool = True,
    name: str = "lexicon",
) -> LinearTeacher:
    """A teacher with two classes that adds up the weights of the words of a text, such as those of a sentiment lexicon.

    The probability of the second class is sigmoid(`scale` · (Σ weights − `threshold`)). Each occurrence of a word
    counts. The contribution of every word is known exactly: `teacher.contributions(row)`, and the explainer `truth`.

    Args:
        weights: The weight of each word; positive speaks for the second class. Words without a weight count nothing.
        classes: The names of the two classes.
        threshold: The sum at which both classes are equally likely.
        scale: How fast the probability changes with the sum.
        lowercase: Compare words without case.
        name: The name of the teacher.

    Examples:
        ```python
        teacher = didact.teacher_from_lexicon({"good": 1.9, "bad": -2.5, "great": 3.1})
        didact.explain(teacher, ["a great film with bad jokes"], "truth").show()
        ```
    """
    if len(classes) != 2:
        raise OptionError(f"A lexicon decides between two classes, and classes= names {len(classes)}.")
    numbers = {"threshold": threshold, "scale": scale, **weights}
    if bad := [f"{key}={value!r}" for key, value in numbers.items() if not isinstance(value, int | float | np.number)]:
        raise OptionError(f"Weights, threshold and scale must be numbers, got {', '.join(bad[:10])}.")
    if not np.isfinite(list(numbers.values())).all() or scale == 0:
        raise OptionError("Weights, threshold and scale must be finite numbers, and scale other than 0.")
    if several := [word for word in weights if len(words_of((word,))) != 1 or word != word.strip()]:
        raise OptionError(
            f"{len(several)} of {len(weights)} entries are not single words, such as {', '.join(several[:5])}. Leave "
            "them out: {word: weight for word, weight in weights.items() if word.isalpha()}."
        )

    def fold(word: str) -> str:
        return word.lower() if lowercase else word

    halves = np.array([-0.5, 0.5]) * scale
    folded = {fold(word): halves * float(weight) for word, weight in weights.items()}
    if len(folded) < len(weights):
        raise OptionError("Some words differ only in case. Leave one of each out, or pass lowercase=False.")
    base = -halves * threshold
    nothing = np.zeros(2)

    def logits(texts: list[str]) -> Float[np.ndarray, "row class"]:
        sums = [sum((folded.get(fold(word), nothing) for word in _words(text)), base) for text in texts]
        return np.array(sums).reshape(-1, 2)

    return LinearTeacher(
        logits, classes, features=lambda word: (fold(word),), weights=folded, base=base, binary=False, name=name
    )


def _words(text: str) -> list[str]:
    return [text[start:end] for _, start, end in words_of((text,))]


def _steps(pipeline: Any) -> tuple[Any, Any]:
    """The vectorizer and the classifier."""
    steps = [step for _, step in pipeline.steps] if hasattr(pipeline, "steps") else pipeline
    if isinstance(steps, tuple | list) and any(type(step).__name__.startswith("Tfidf") for step in steps):
        raise UnsupportedError(
            "Tf-idf divides the counts of a text by their norm, so removing one word changes what all others add, and "
            f"no word has an exact contribution. Use CountVectorizer(binary=True). {_BLACK_BOX}"
        )
    if not isinstance(steps, tuple | list) or len(steps) != 2:
        names = [type(step).__name__ for step in steps] if isinstance(steps, tuple | list) else type(pipeline).__name__
        raise UnsupportedError(
            "teacher_from_sklearn needs a pipeline of two steps, a CountVectorizer and a linear classifier, and got "
            f"{names}. {_BLACK_BOX}"
        )
    return steps[0], steps[1]


def _check_vectorizer(vectorizer: Any) -> None:
    """Raise `UnsupportedError` unless the vectorizer counts single words, those of didact."""
    from sklearn.feature_extraction.text import CountVectorizer

    if not isinstance(vectorizer, CountVectorizer):
        raise UnsupportedError(
            f"The first step must be a CountVectorizer, and is a {type(vectorizer).__name__}. {_BLACK_BOX}"
        )
    if not hasattr(vectorizer, "vocabulary_"):
        raise OptionError("The pipeline is not fitted. Call fit first.")
    needs = {"analyzer": "word", "ngram_range": (1, 1), "tokenizer": None, "preprocessor": None}
    wrong = [
        f"{option}={getattr(vectorizer, option)!r} (needed: {value!r})"
        for option, value in needs.items()
        if getattr(vectorizer, option) != value
    ]
    if wrong:
        raise UnsupportedError(
            f"Contributions are known for single words, and the vectorizer has {', '.join(wrong)}. {_BLACK_BOX}"
        )
    analyze = vectorizer.build_analyzer()
    if analyze(_PROBE) != [term for word in _words(_PROBE) for term in analyze(word)]:
        raise UnsupportedError(
            f"The vectorizer joins or cuts words (token_pattern={vectorizer.token_pattern!r}), so that removing one "
            rf"changes another. Use the default, or token_pattern=r'\w+'. {_BLACK_BOX}"
        )


def _linear_parts(
    classifier: Any, columns: int
) -> tuple[Float[np.ndarray, "output column"], Float[np.ndarray, " output"]]:
    """Coefficients and intercepts, compared with the classifier's own decision values."""
    if not all(hasattr(classifier, name) for name in ("coef_", "intercept_", "classes_", "decision_function")):
        raise UnsupportedError(
            f"{type(classifier).__name__} is no fitted linear classifier: it needs coef_, intercept_, classes_ and "
            f"decision_function, as LogisticRegression and LinearSVC have. {_BLACK_BOX}"
        )
    coefficients = classifier.coef_
    coefficients = coefficients.toarray() if hasattr(coefficients, "toarray") else np.asarray(coefficients)
    coefficients = np.atleast_2d(coefficients).astype(np.float64)
    outputs = 1 if len(classifier.classes_) == 2 else len(classifier.classes_)
    intercept = np.broadcast_to(np.asarray(classifier.intercept_, dtype=np.float64), (len(coefficients),))
    rows = (np.random.default_rng(0).random((8, columns)) < 0.5).astype(np.float64)
    decision = np.asarray(classifier.decision_function(rows)).reshape(len(rows), -1)
    is_linear = coefficients.shape == (outputs, columns) and np.allclose(
        rows @ coefficients.T + intercept, decision, rtol=_TOLERANCE, atol=_TOLERANCE
    )
    if not is_linear:
        raise UnsupportedError(
            f"The decision values of {type(classifier).__name__} are not coef_ · counts + intercept_. {_BLACK_BOX}"
        )
    return coefficients, intercept


_BLACK_BOX: Final = (
    "To explain it without known contributions: didact.teacher_from_function(pipeline.predict_proba, …)."
)
