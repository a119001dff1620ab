"""`didact.sanity`: checks that explanations depend on the model, and that metrics cannot be fooled.

Three checks: `weights` randomises the teacher layer by layer from the output down (Adebayo et al. 2018), `labels`
trains a copy on shuffled labels, and `trivial` scores explanations that encode nothing but the label.
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

_NEEDS: Final = {"weights": "weights", "labels": "training", "trivial": "classes"}  # what a check needs of the teacher
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
    """Run sanity checks: do explanations change with the model, and do metrics resist a label leak?

    An explanation that hardly changes while the weights of the model are randomised explains something other than the
    model.

    Args:
        teacher: The model.
        data: A data set, or its name.
        methods: Names of methods.
        checks: `weights` randomises the layers one after another and needs a model. `labels` trains the model again on
            shuffled labels and needs one that can be trained from its base. `trivial` asks whether a metric prefers a
            label leak, and needs classes. Default: weights and trivial, as far as the teacher allows.
        split: The split whose rows are explained.
        rows: The number of rows, from the start of the split.
        seed: Seed of random weights, shuffled labels and methods.
        epochs: Epochs of `labels` (default: those of the model's own training).
        batch_size: Perturbed rows per forward pass.
        classes: The data's class names in the teacher's order, if the names differ.
        progress: Show a progress bar.

    Returns:
        A `Sanity`, with the lines of each check. `to_pandas()` gives a data frame for each.

    Examples:
        ```python
        data = didact.load_data("planted/sentiment")
        teacher = didact.load_teacher("runs/demo/teacher")
        print(didact.sanity(teacher, data, ["gradient_norm", "attention_all"], checks=["weights"], rows=10).to_pandas())
        ```
    """
    for name in checks or ():
        if name not in CHECKS:
            raise OptionError(f"checks must be among {', '.join(map(repr, CHECKS))}, got {name!r}.")
    loaded_teacher: Teacher = load_teacher(teacher)
    possible = [name for name in CHECKS if obstacle(loaded_teacher, _NEEDS[name]) is None]
    checks = [name for name in possible if name != "labels"] if checks is None else checks
    for name in checks:
        require(loaded_teacher, _NEEDS[name], f"The check {name!r}", advice=f"Choose {', '.join(map(repr, possible))}.")
    loaded_data = data if isinstance(data, Dataset) else load_data(data)
    data_notes = loaded_data.notes
    loaded_data = align_labels(
        loaded_data, loaded_teacher, classes=classes, required="labels" in checks or explains_gold_label(*methods)
    )
    job = _SanityJob(
        loaded_teacher, loaded_data, list(loaded_data[split][:rows]), list(methods), seed, batch_size, progress
    )
    job.notes += loaded_data.notes[len(data_notes) :]
    return Sanity(
        weights=tuple(job.weights()) if "weights" in checks else (),
        labels=tuple(job.labels(epochs)) if "labels" in checks else (),
        trivial=tuple(job.trivial()) if "trivial" in checks else (),
        notes=tuple(job.notes),
    )


class _SanityJob:
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
    def original(self) -> dict[str, Explanations]:
        """The explanations of the unchanged teacher, by method."""
        return {method: self._explain(self.teacher, method) for method in self.methods}

    def weights(self) -> Iterator[SanityStep]:
        """Compare explanations of the teacher before and after randomising more and more layers, output first."""
        yield from self._similarities(ORIGINAL, self.original)
        randomised = deepcopy(require_model(self.teacher, "weights"))
        for step, names in _steps(randomised):
            _randomise(randomised, names, self.seed)
            yield from self._similarities(step, {method: self._explain(randomised, method) for method in self.methods})

    def labels(self, epochs: int | None) -> Iterator[SanityStep]:
        """Compare explanations of the teacher with those of a copy that is trained on shuffled labels."""
        retrained = self._train_on_shuffled_labels(epochs)
        yield from self._similarities(ORIGINAL, self.original)
        yield from self._similarities(SHUFFLED, {method: self._explain(retrained, method) for method in self.methods})

    def trivial(self) -> Iterator[FooledMetric]:
        """Score explanations that encode the class as a position in the row, with every metric."""
        explanations = explain(self.teacher, self.rows, "trivial", batch_size=self.batch_size)
        evaluation = run_evaluation(explanations, self.teacher, self.data, seed=self.seed, batch_size=self.batch_size)
        means = {(row.metric, row.method): row.value for row in evaluation.summary()}
        for test in evaluation.tests():
            entry = METRICS[test.metric]
            low, high = (np.nan if end is None else end for end in (test.low, test.high))
            is_fooled = low > 0 if entry.better == "higher" else high < 0
            yield FooledMetric(
                test.metric, means[test.metric, "trivial"], means[test.metric, "random"], test.difference, low, high,
                entry.better, test.rows, is_fooled,
            )  # fmt: skip

    def _similarities(self, step: str, by_method: Mapping[str, Explanations]) -> Iterator[SanityStep]:
        for method, explanations in by_method.items():
            correlations = agreement([self.original[method], explanations], "spearman", by="size")[:, 0, 1]
            values = np.stack([correlations, RocAuc()(_word_scores(explanations), self.rows)])
            similarity, area = ((mean, *ends) for mean, *ends, _ in row_means(values))
            yield SanityStep(method, step, len(explanations), *similarity, *area)

    def _explain(self, teacher: Teacher, method: str) -> Explanations:
        """Explain the class that the unchanged teacher predicts, so that only the model differs."""
        shared = {"batch_size": self.batch_size, "seed": self.seed}
        spec_options = {} if is_learned(method) else parse_spec(method).options
        options: dict[str, object] = {name: value for name, value in shared.items() if name not in spec_options}
        options["progress"] = self.progress
        if teacher is self.teacher:
            return explain(teacher, self.rows, method, **options)
        target = self.original[method].targets
        if self.teacher.classes is None or not set(target) <= set(self.teacher.classes):
            with ignore_score_warnings():
                return explain(teacher, self.rows, method, **options)
        order = {name: number for number, name in enumerate(self.teacher.classes)}
        rows = [replace(row, label=order[name]) for row, name in zip(self.rows, target, strict=True)]
        with ignore_score_warnings():  # warnings about a randomised model do not matter
            return explain(teacher, rows, method, target="gold", **options)

    def _train_on_shuffled_labels(self, epochs: int | None) -> Model:
        teacher = self.teacher
        teach_rows, dev_rows = self.data["teach"].rows, self.data["dev"].rows
        init = student_init("same", teacher=teacher, task=teacher.task, classes=teacher.classes, rows=teach_rows)
        model = init.build(self.seed).to(teacher.device)
        gold = HumanTeacher(self.data.task, self.data.classes)
        train, dev = (
            Examples.of(model, rows, _shuffled(gold.predict(rows), self.seed)) for rows in (teach_rows, dev_rows)
        )
        training: Training = default_training(model)
        training = replace(
            training, seed=self.seed, epochs=epochs or training.epochs, patience=epochs or training.epochs
        )
        history = fit(model, train, dev, training, keep="last", progress=self.progress)
        self.notes.append(
            f"The copy ({init.origin}) learned shuffled labels of {len(train):,} rows for {len(history)} epochs; its "
            f"training loss is {history[-1].loss:.3f}."
        )
        return model


def _steps(model: Model) -> Iterator[tuple[str, list[str]]]:
    """Names of parameters, from the output down: the head, each layer, the embeddings."""
    names = [name for name, _ in model.named_parameters()]
    layer_parameters: dict[int, list[str]] = {}
    name_of = {id(parameter): name for name, parameter in model.named_parameters()}
    for number, layer in enumerate(model.layers_in_order):
        layer_parameters[number] = [
            name_of[id(parameter)] for parameter in layer.parameters() if id(parameter) in name_of
        ]
    in_layers = {name for step_names in layer_parameters.values() for name in step_names}
    if in_layers:
        before = set(names[: min(names.index(name) for name in in_layers)])
    else:  # layers without weights, such as a bag of words
        tables = [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]
        before = {name_of[id(parameter)] for table in tables for parameter in table.parameters()}
    steps = [("head", [name for name in names if name not in in_layers and name not in before])]
    steps += [(f"layer {number + 1}", layer_parameters[number]) for number in sorted(layer_parameters, reverse=True)]
    steps.append(("embeddings", [name for name in names if name in before]))
    yield from ((step, step_names) for step, step_names in steps if step_names)


def _randomise(model: Model, names: Sequence[str], seed: int) -> None:
    """Redraw weights from a normal distribution with the mean and standard deviation of each tensor."""
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name in names:
            weights = parameters[name]
            generator = torch.Generator().manual_seed(seed_from(seed, "weights", name))
            noise = torch.randn(weights.shape, generator=generator, dtype=torch.float64)
            exact = weights.cpu().double()  # some devices have no double precision
            deviation = exact.std(correction=0) if weights.numel() else torch.zeros(())
            weights.copy_((noise * deviation + exact.mean()).to(weights.dtype))


def _shuffled(outputs: Outputs, seed: int) -> Outputs:
    order = numpy_generator(seed, "shuffled labels").permutation(len(outputs))
    mixed = outputs.select(order)
    return replace(mixed, ids=outputs.ids)


def _word_scores(explanations: Explanations) -> Explanations:
    return explanations if explanations.is_image else without_special(explanations).words()
