"""Do explanations depend on the model at all, and which metrics can be fooled?

Three checks: the teacher's weights are drawn anew, layer by layer from the top (Adebayo et al. 2018); a twin is trained
on shuffled labels; and explanations that give the label away and say nothing else are measured as all others are.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch

from didact.core.classes import align_labels
from didact.core.dataset import Dataset
from didact.core.human import HumanTeacher
from didact.core.model import Model, require_model
from didact.core.needs import obstacle, require
from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.core.seeds import numpy_generator, seed_from
from didact.core.teacher import Teacher
from didact.data.load import load_data
from didact.errors import OptionError
from didact.evaluation.evaluate import run_evaluation
from didact.evaluation.metrics_job import row_means
from didact.explainers import is_learned
from didact.explaining.align_sets import without_special
from didact.explaining.explain import explain
from didact.explaining.input_rows import explains_gold_label
from didact.explaining.score_checks import ignore_score_warnings
from didact.learning.fit import Examples, Training, fit
from didact.learning.train import default_training
from didact.metrics import METRICS
from didact.metrics.agreement import agreement
from didact.metrics.plausibility import RocAuc
from didact.models.load import load_teacher
from didact.models.student_init import student_init
from didact.registry import parse_spec
from didact.results.explanations import Explanations
from didact.results.sanity import CHECKS, FooledMetric, Sanity, SanityStep

_NEEDS: Final = {"weights": "weights", "labels": "training", "trivial": "classes"}  # of each check
ORIGINAL: Final = "as it is"
SHUFFLED: Final = "shuffled labels"


def sanity(
    teacher: Any,
    data: Any,
    methods: Sequence[str],
    *,
    checks: Sequence[str] | None = None,
    split: str = "test",
    rows: int = 100,
    seed: int = 0,
    epochs: int | None = None,
    batch_size: int = 64,
    classes: Sequence[str] | None = None,
    progress: bool = False,
) -> Sanity:
    """Check methods, and the metrics that judge them, on the first `rows` of a split.

    An explanation whose likeness stays high while the weights are drawn anew explains something other than the model.
    `weights` asks for a model, `labels` for one that can be trained again (its architecture, from its base, `epochs`
    as it was trained unless told), `trivial` for a teacher with classes. By default: weights and trivial, of these
    what can be checked. `classes` names the data's classes in the teacher's order, where the names differ.
    """
    for name in checks or ():
        if name not in CHECKS:
            raise OptionError(f"A check is one of {', '.join(map(repr, CHECKS))}, not {name!r}.")
    known: Teacher = load_teacher(teacher)
    able = [name for name in CHECKS if obstacle(known, _NEEDS[name]) is None]
    checks = [name for name in able if name != "labels"] if checks is None else checks
    for name in checks:
        require(known, _NEEDS[name], f"The check {name!r}", advice=f"Choose {', '.join(map(repr, able))}.")
    loaded = data if isinstance(data, Dataset) else load_data(data)
    before = loaded.notes
    loaded = align_labels(loaded, known, classes=classes, required="labels" in checks or explains_gold_label(*methods))
    work = _Work(known, loaded, list(loaded[split][:rows]), list(methods), seed, batch_size, progress)
    work.notes += loaded.notes[len(before) :]
    return Sanity(
        weights=tuple(work.weights()) if "weights" in checks else (),
        labels=tuple(work.labels(epochs)) if "labels" in checks else (),
        trivial=tuple(work.trivial()) if "trivial" in checks else (),
        notes=tuple(work.notes),
    )


class _Work:
    def __init__(
        self,
        teacher: Teacher,
        data: Dataset,
        rows: Sequence[Row],
        methods: Sequence[str],
        seed: int,
        batch_size: int,
        progress: bool,
    ) -> None:
        if not rows:
            raise OptionError("There is nothing to check: the split has no rows.")
        self.teacher, self.data, self.rows, self.methods = teacher, data, rows, methods
        self.seed, self.batch_size, self.progress = seed, batch_size, progress
        self.notes: list[str] = []

    @cached_property
    def whole(self) -> dict[str, Explanations]:
        """The explanations of the teacher as it is, by method."""
        return {method: self._explained(self.teacher, method) for method in self.methods}

    def weights(self) -> Iterator[SanityStep]:
        """Explanations of the teacher as it is, then with more and more of it drawn anew, from the answer down."""
        yield from self._compared(ORIGINAL, self.whole)
        twin = deepcopy(require_model(self.teacher, "weights"))
        for step, names in _steps(twin):
            _redraw(twin, names, self.seed)
            yield from self._compared(step, {method: self._explained(twin, method) for method in self.methods})

    def labels(self, epochs: int | None) -> Iterator[SanityStep]:
        """Explanations of a twin that was taught shuffled labels, beside those of the teacher."""
        twin = self._taught_nonsense(epochs)
        yield from self._compared(ORIGINAL, self.whole)
        yield from self._compared(SHUFFLED, {method: self._explained(twin, method) for method in self.methods})

    def trivial(self) -> Iterator[FooledMetric]:
        """What every metric says of explanations that mark the class by a place in the row."""
        maps = explain(self.teacher, self.rows, "trivial", batch_size=self.batch_size)
        found = run_evaluation(maps, self.teacher, self.data, seed=self.seed, batch_size=self.batch_size)
        means = {(row.metric, row.method): row.value for row in found.summary()}
        for test in found.tests():
            entry = METRICS[test.metric]
            low, high = (np.nan if end is None else end for end in (test.low, test.high))
            is_fooled = low > 0 if entry.better == "higher" else high < 0
            yield FooledMetric(
                test.metric, means[test.metric, "trivial"], means[test.metric, "random"], test.difference, low, high,
                entry.better, test.rows, is_fooled,
            )  # fmt: skip

    def _compared(self, step: str, maps: Mapping[str, Explanations]) -> Iterator[SanityStep]:
        for method, one in maps.items():
            likeness = agreement([self.whole[method], one], "spearman", by="size")[:, 0, 1]
            values = np.stack([likeness, RocAuc()(_in_words(one), self.rows)])
            similarity, area = ((mean, *ends) for mean, *ends, _ in row_means(values))
            yield SanityStep(method, step, len(one), *similarity, *area)

    def _explained(self, teacher: Teacher, method: str) -> Explanations:
        """Explanations of the class that the teacher as it is predicts: what changes is the model alone."""
        shared = {"batch_size": self.batch_size, "seed": self.seed}
        named = {} if is_learned(method) else parse_spec(method).options
        asked: dict[str, object] = {name: value for name, value in shared.items() if name not in named}
        asked["progress"] = self.progress
        if teacher is self.teacher:
            return explain(teacher, self.rows, method, **asked)
        target = self.whole[method].targets
        if self.teacher.classes is None or not set(target) <= set(self.teacher.classes):
            with ignore_score_warnings():
                return explain(teacher, self.rows, method, **asked)
        order = {name: number for number, name in enumerate(self.teacher.classes)}
        rows = [replace(row, label=order[name]) for row, name in zip(self.rows, target, strict=True)]
        with ignore_score_warnings():  # of a model with random weights
            return explain(teacher, rows, method, target="gold", **asked)

    def _taught_nonsense(self, epochs: int | None) -> Model:
        teacher = self.teacher
        lessons, chosen_by = self.data["teach"].rows, self.data["dev"].rows
        start = student_init("same", teacher=teacher, task=teacher.task, classes=teacher.classes, rows=lessons)
        twin = start.build(self.seed).to(teacher.device)
        gold = HumanTeacher(self.data.task, self.data.classes)
        train, dev = (
            Examples.of(twin, rows, _shuffled(gold.predict(rows), self.seed)) for rows in (lessons, chosen_by)
        )
        asked: Training = default_training(twin)
        asked = replace(asked, seed=self.seed, epochs=epochs or asked.epochs, patience=epochs or asked.epochs)
        history = fit(twin, train, dev, asked, keep="last", progress=self.progress)
        self.notes.append(
            f"The twin ({start.origin}) learned shuffled labels of {len(train):,} rows for {len(history)} epochs; its "
            f"training loss is {history[-1].loss:.3f}."
        )
        return twin


def _steps(model: Model) -> Iterator[tuple[str, list[str]]]:
    """Names of parameters, from the answer down: what comes after the layers, each layer, what comes before them."""
    names = [name for name, _ in model.named_parameters()]
    of_layer: dict[int, list[str]] = {}
    numbers = {id(one): name for name, one in model.named_parameters()}
    for number, layer in enumerate(model.layers_in_order):
        of_layer[number] = [numbers[id(one)] for one in layer.parameters() if id(one) in numbers]
    inside = {name for own in of_layer.values() for name in own}
    if inside:
        before = set(names[: min(names.index(name) for name in inside)])
    else:  # layers without weights, as of a bag of words
        tables = [one for one in model.modules() if isinstance(one, torch.nn.Embedding)]
        before = {numbers[id(one)] for table in tables for one in table.parameters()}
    steps = [("head", [name for name in names if name not in inside and name not in before])]
    steps += [(f"layer {number + 1}", of_layer[number]) for number in sorted(of_layer, reverse=True)]
    steps.append(("embeddings", [name for name in names if name in before]))
    yield from ((step, own) for step, own in steps if own)


def _redraw(model: Model, names: Sequence[str], seed: int) -> None:
    """Draw weights anew, with the mean and spread that each tensor has: scales stay, what was learned goes."""
    known = dict(model.named_parameters())
    with torch.no_grad():
        for name in names:
            one = known[name]
            dice = torch.Generator().manual_seed(seed_from(seed, "weights", name))
            drawn = torch.randn(one.shape, generator=dice, dtype=torch.float64)
            exact = one.cpu().double()  # some devices have no double precision
            spread = exact.std(correction=0) if one.numel() else torch.zeros(())
            one.copy_((drawn * spread + exact.mean()).to(one.dtype))


def _shuffled(outputs: Outputs, seed: int) -> Outputs:
    order = numpy_generator(seed, "shuffled labels").permutation(len(outputs))
    mixed = outputs.select(order)
    return replace(mixed, ids=outputs.ids)


def _in_words(maps: Explanations) -> Explanations:
    return maps if maps.is_image else without_special(maps).words()
