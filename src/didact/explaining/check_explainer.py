"""`check_explainer` tests an explainer against the contract of all explainers, on tiny models with random weights."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

import numpy as np
import torch

from didact.core.explainer import Explainer
from didact.core.function import FunctionTeacher
from didact.core.row import Row, Span
from didact.core.task import TASKS
from didact.core.teacher import Teacher
from didact.errors import ContractError, RequestError
from didact.explainers import EXPLAINERS, ExplainerEntry
from didact.explainers.build import ResolvedMethod, build_explainer
from didact.explainers.contract import NOT_APPLICABLE, PROMISES, check_promises
from didact.registry import UNSTATED

_TOLERANCE: Final = 1e-4  # models compute in single precision
_SERVED: Final = "It explains at least one of the models."
_REFUSES: Final = "It refuses what it cannot explain with an UnsupportedError or another RequestError."
_TEXTS: Final = ("a good film", "the plot is unbelievable, but the music was great!", "bad")
_PAIRS: Final = (("who sings", "the music was great anna sings"), ("a film", "bad"), ("is it good", "not very good"))


@dataclass(frozen=True)
class PromiseResult:
    """One promise, whether the explainer keeps it, and what was observed if not."""

    promise: str
    outcome: Literal["passed", "failed", "not applicable"]
    seen: str = ""

    def __str__(self) -> str:
        sign = {"passed": "✓", "failed": "✗"}.get(self.outcome, "–")
        return f"{sign} {self.promise}" + (f" {self.seen}" if self.seen else "")


@dataclass(frozen=True)
class ExplainerCheck:
    """The result of `check_explainer`. `str` gives one line per promise."""

    method: str
    promises: tuple[PromiseResult, ...]

    @property
    def passed(self) -> bool:
        return not self.failed

    @property
    def failed(self) -> tuple[PromiseResult, ...]:
        return tuple(promise for promise in self.promises if promise.outcome == "failed")

    def __str__(self) -> str:
        broken = len(self.failed)
        promises = "a promise" if broken == 1 else f"{broken} promises"
        head = f"{self.method} breaks {promises}." if broken else f"{self.method} keeps its promises."
        return "\n".join([head, *map(str, self.promises)])


def check_explainer(
    method: str | Explainer | Callable[..., Any], *, raises: bool = True, **options: Any
) -> ExplainerCheck:
    """Check that an explainer keeps the promises that all explainers of didact make.

    It explains a few rows of tiny models with random weights: a transformer, a BERT with word pieces, a BiLSTM, and
    models of pairs, scores and reading. Nothing is downloaded, and it takes seconds. Models that the explainer refuses
    with `UnsupportedError` are left out. Functions are tried only if the method is registered with
    `needs="predictions"` or `needs="nothing"`.

    Args:
        method: An explainer, a callable, or a name.
        raises: Raise an error if a promise is broken. False returns the result instead.
        **options: Options of a method that was named.

    Returns:
        The result. `promises` holds one value per promise, and `print` shows them.

    Raises:
        ContractError: A promise is broken. It is an `AssertionError`, so one line makes a test.

    Examples:
        ```python
        print(didact.check_explainer("gradient_input"))
        ```
    """
    built = build_explainer(method, **options)
    entry = _entry(built)
    kind = None if entry is None or entry.kind == UNSTATED else entry.kind
    outcomes: dict[str, list[tuple[str, str]]] = {name: [] for name in PROMISES}
    served, refused, crashed = [], [], []
    with_function = entry is not None and entry.needs in ("predictions", "nothing")
    for subject, teacher, rows in _subjects(with_function=with_function):
        prepared = partial(_prepared, method, options, teacher)
        try:
            faults = check_promises(prepared, teacher, rows, kind=kind, tolerance=_TOLERANCE)
        except RequestError as error:
            refused.append(f"{subject}: {error}")
            continue
        except Exception as error:
            crashed.append(f"{subject}: {type(error).__name__}: {error}")
            continue
        served.append(subject)
        for name, fault in faults.items():
            outcomes[name].append((subject, fault))
    promises = [_verdict(promise, outcomes[name]) for name, promise in PROMISES.items()]
    promises.append(PromiseResult(_SERVED, "passed" if served else "failed", "" if served else "; ".join(refused[:1])))
    refusal: Literal["passed", "failed", "not applicable"] = "passed" if refused else "not applicable"
    promises.append(PromiseResult(_REFUSES, "failed" if crashed else refusal, crashed[0] if crashed else ""))
    check = ExplainerCheck(built.name, tuple(promises))
    if raises and not check.passed:
        raise ContractError(str(check))
    return check


def _verdict(promise: str, outcomes: Sequence[tuple[str, str]]) -> PromiseResult:
    """Combine the outcomes on all models into one result."""
    broken = next((outcome for outcome in outcomes if outcome[1] not in ("", NOT_APPLICABLE)), None)
    if broken is not None:
        return PromiseResult(promise, "failed", f"{broken[0]}: {broken[1]}")
    return PromiseResult(promise, "passed" if any(not fault for _, fault in outcomes) else "not applicable")


def _prepared(method: Any, options: dict[str, object], teacher: Teacher, rows: Sequence[Row]) -> Callable[..., Any]:
    explainer = build_explainer(method, **options).explainer
    if isinstance(explainer, Explainer):
        explainer.prepare(teacher, rows)
    return explainer


def _entry(built: ResolvedMethod) -> ExplainerEntry | None:
    """The registry entry of the explainer. None if another function merely has the name of a method."""
    function = inspect.unwrap(getattr(built.explainer, "function", type(built.explainer)))
    if built.name not in EXPLAINERS or EXPLAINERS.load(built.name) is not function:
        return None
    return EXPLAINERS[built.name]


def _subjects(*, with_function: bool) -> Iterator[tuple[str, Teacher, Sequence[Row]]]:
    """Name, teacher and rows (of several lengths) of each tiny model."""
    marked = (Span(0, 0, 1),)
    truth: dict[str, Any] = {"rationale": marked, "rationale_weights": (1.0,)}
    texts = [Row(f"text {index}", (text,), label=index % 2, **truth) for index, text in enumerate(_TEXTS)]
    pairs = [Row(f"pair {index}", pair, label=index % 2, **truth) for index, pair in enumerate(_PAIRS)]
    scores = [replace(row, label=float(index)) for index, row in enumerate(texts)]
    questions = [replace(row, label=(Span(1, 0, 3),)) for row in pairs]
    yield "transformer, classification", _native("native", "classification", texts), texts
    yield "BERT, classification", _bert(), texts
    yield "transformer, pair", _native("native", "pair", pairs), pairs
    yield "transformer, regression", _native("native", "regression", scores), scores
    yield "transformer, reading", _native("native", "reading", questions), questions
    yield "BiLSTM with attention, classification", _native("bilstm_attention", "classification", texts), texts
    if with_function:
        yield "function, classification", FunctionTeacher(_count_letters, ["few", "many"]), texts


def _native(architecture: str, task: str, rows: Sequence[Row]) -> Teacher:
    from didact.models.build import native_model

    heads = ", heads=4" if architecture == "native" else ""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = native_model(
            f"{architecture}(width=16{heads})", task=TASKS[task], rows=rows, source="rows of the check", split="all",
            classes=("a", "b", "c") if TASKS[task].has_classes else None,
        )  # fmt: skip
        _add_noise(model)
    return model.eval()


def _bert() -> Teacher:
    """A BERT with two layers and a tokenizer that splits words into pieces."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    from didact.models.load import load_teacher

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = sorted({word for text in _TEXTS for word in text.split()} - {"unbelievable,"})
    names = [*special, *words, ",", "!", "great", "un", "##believ", "##able"]
    vocabulary = {name: index for index, name in enumerate(dict.fromkeys(names))}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]",
    )  # fmt: skip
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
        num_labels=3,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertForSequenceClassification(config).eval()
        _add_noise(model)
    return load_teacher((model, tokenizer))


def _add_noise(model: torch.nn.Module) -> None:
    """Randomise biases and norms, too: at their defaults, many mistakes cancel out."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)


def _count_letters(texts: Sequence[str]) -> np.ndarray:
    """Probabilities of the classes few and many, from the counts of the letters a and o."""
    many = 1 / (1 + np.exp([0.5 + 0.2 * text.count("a") - 0.3 * text.count("o") for text in texts]))
    return np.stack([1 - many, many], 1)
