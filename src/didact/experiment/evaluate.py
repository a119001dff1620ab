"""What explanations are worth by every measure but teaching: faithfulness, plausibility, stability."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from didact.core.classes import align_rows
from didact.core.dataset import Dataset, Split
from didact.core.fingerprint import remembered_fingerprint
from didact.core.model import Model
from didact.core.perturb import DEFAULT, check_replace
from didact.core.row import Row, Span
from didact.core.seeds import numpy_generator
from didact.core.task import task_named
from didact.core.teacher import Teacher
from didact.core.words import marked_words
from didact.data.load import load_data
from didact.data.planted.dataset import PlantedDataset
from didact.data.planted.verify import verify
from didact.errors import DataError, OptionError
from didact.experiment.bring import opened
from didact.explaining.align_sets import LEVELS, Set, check_given, labelled, matched, without_special
from didact.explaining.input_rows import named_rows
from didact.metrics import METRICS, MetricEntry
from didact.metrics.faithfulness import Faithfulness, check_targets, columns_of, faithfulness
from didact.metrics.plausibility import IouF1, Marks, Plausibility, marks_in
from didact.metrics.probe import PRESETS, Probe
from didact.metrics.stability import SemanticStability, Stability
from didact.models.build import build_model
from didact.models.load import load_teacher
from didact.records.explanations import Explanations
from didact.registry import check_types, checked_options, parse_spec, renamed_option, unknown
from didact.render.progress import Progress
from didact.results.measured import MetricRow, MetricTable, MetricTest
from didact.stats.claims import claims
from didact.stats.contrast import row_contrasts

RANDOM: Final = "random"
COLUMNS: Final = ("method", "metric", "value", "low", "high", "rows", "skipped", "better", "how")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One number for each metric, method and row; NaN where a row has none.

    `how` tells by metric what was done: what stood where units were taken away, whether sizes or signed scores were
    compared. `heading` is what scores against rationales say: plausibility, or truth.
    """

    metrics: tuple[str, ...]
    methods: tuple[str, ...]
    ids: tuple[str, ...]
    values: Float[np.ndarray, "metric method row"]
    how: Mapping[str, str]
    bounds: Mapping[str, tuple[float, float]]
    better: Mapping[str, str]
    heading: str = "plausibility"
    notes: tuple[str, ...] = ()

    def summary(self) -> list[MetricRow]:
        """One line per method and metric: the mean over rows with its 95 % interval, rows measured and skipped."""
        lines = []
        for metric, own in zip(self.metrics, self.values, strict=True):
            for method, values, mean in zip(self.methods, own, row_contrasts(own), strict=True):
                # An interval for few rows may reach beyond what the metric can be.
                ends = (np.nan, np.nan) if mean is None else mean.interval()
                low, high = np.clip(ends, *self.bounds[metric]).tolist()
                known = values[np.isfinite(values)]
                rows, value = len(known), float(known.mean()) if len(known) else np.nan
                how = self.how.get(metric, "")
                skipped = len(values) - rows
                lines.append(MetricRow(method, metric, value, low, high, rows, skipped, self.better[metric], how))
        return lines

    def tests(self) -> list[MetricTest]:
        """Each two methods by each metric, on the rows both have: the mean difference, its interval and p.

        The pairs of a metric are one family of claims (docs/compare.md states the rule), here about rows alone.
        """
        lines: list[MetricTest] = []
        pairs = list(combinations(range(len(self.methods)), 2))
        for number, metric in enumerate(self.metrics if pairs else ()):
            gaps = np.stack([self.values[number, first] - self.values[number, second] for first, second in pairs])
            gaps = np.round(gaps, 12)  # equal but for rounding is equal
            contrasts = row_contrasts(gaps)
            family = iter(claims([one for one in contrasts if one is not None], over_seeds=False))
            for (first, second), gap, contrast in zip(pairs, gaps, contrasts, strict=True):
                known = gap[np.isfinite(gap)]
                claim = None if contrast is None else next(family)
                names = (self.methods[first], self.methods[second])
                mean = float(known.mean()) if len(known) else np.nan
                if claim is None:
                    lines.append(MetricTest(metric, *names, mean, np.nan, np.nan, len(known)))
                else:
                    ends = (claim.low, claim.high)
                    lines.append(MetricTest(metric, *names, mean, *ends, len(known), claim.p, claim.claimed))
        return lines

    def to_pandas(self) -> Any:
        """A data frame of `summary` that shows itself as a table in a notebook.

        `frame.attrs` holds the notes, the heading, and the tests as another frame.
        """
        import pandas

        from didact.experiment.frame import MetricsFrame

        frame = MetricsFrame([dict(line) for line in self.summary()], columns=list(COLUMNS))
        frame.attrs = {
            "notes": list(self.notes),
            "heading": self.heading,
            "tests": pandas.DataFrame([dict(test) for test in self.tests()]),
        }
        return frame

    def to_table(self) -> MetricTable:
        """The means and tests, as a run stores them."""
        return MetricTable(tuple(self.summary()), tuple(self.tests()), self.heading, self.notes, len(self.ids))

    def to_document(self) -> dict[str, Any]:
        """Plain content for JSON."""
        return self.to_table().to_document()


def evaluate(explanations: Any, teacher: Any = None, data: Any = None, **options: Any) -> Any:
    """Measure explanations, and give a data frame: method, metric, value, low, high, rows, skipped, better, how.

    `explanations` are sets, files that `save` wrote (or of other tools, which are read onto `data`), or several of
    either, all of the same rows. The `teacher` is asked for faithfulness; `data` (a data set, its name, or rows) hold
    the rationales. `metrics` names what is measured (`didact metrics` lists them; options in brackets:
    comprehensiveness(k=0.2)), by default all that can be. A metric of your own is any callable (explained, row) ->
    number with an attribute `better`, higher or lower. What is taken away is replaced by the mask token
    (`replace=mask`), deleted, padded or zero; `preset` is eraser or l2e. `level=word` joins pieces first. `encoder`
    tells which rows mean the same: a model, or minilm; the teacher by default. A `random` explanation stands beside
    the others unless `control=False`; `seed` draws it. `classes` names the data's classes in the teacher's order
    where the names differ, for a metric of your own that reads labels. `value` is the mean over rows, `low` and `high`
    its 95 % interval. `frame.attrs` holds notes, and tests between the methods.
    """
    return evaluated(explanations, teacher, data, **options).to_pandas()


def evaluated(
    explanations: Any,
    teacher: Any = None,
    data: Any = None,
    *,
    metrics: Sequence[str | Callable[..., Any]] | str | Callable[..., Any] | None = None,
    replace: str | None = None,
    remove: str | None = None,
    preset: str | None = None,
    level: str | None = None,
    encoder: Any = None,
    control: bool = True,
    seed: int = 0,
    batch_size: int = 64,
    progress: bool = False,
    classes: Sequence[str] | None = None,
) -> Evaluation:
    """As `evaluate`, with the numbers of every row."""
    asked = (
        None
        if metrics is None
        else _metrics([metrics] if isinstance(metrics, str) or callable(metrics) else list(metrics))
    )
    replace = _replacement(**renamed_option({"replace": replace, "remove": remove}, "remove", "replace"), preset=preset)
    loaded = load_data(data) if isinstance(data, str | Path) else data
    known: Teacher | None = None if teacher is None else load_teacher(teacher)
    maps, said = _sets(explanations, loaded, known, level)
    special = [name for name, one in maps.items() if one.task != "image" and (one.segments < 0).any()]
    maps = {name: without_special(one) for name, one in maps.items()}
    first = next(iter(maps.values()))
    if control and RANDOM not in maps:
        maps[RANDOM] = _random(first, seed, signed=any(one.kind == "signed" for one in maps.values()))
    rows, note = _labelled(_rows(first, loaded), loaded, first if known is None else known, classes)
    work = _Work(maps, rows, known, loaded, encoder, replace, batch_size, said)
    if note is not None and any(parse_spec(name).name not in METRICS for name in asked or ()):
        work.notes.append(note)
    if special:
        work.notes.append(f"Scores of special tokens were left out: {', '.join(special)}.")
    return work.done(work.possible() if asked is None else asked, progress)


@dataclass
class _Work:
    maps: Mapping[str, Explanations]
    rows: list[Row]
    teacher: Teacher | None
    data: Any
    encoder: Any
    replace: str
    batch_size: int
    notes: list[str] = field(default_factory=list)

    @property
    def first(self) -> Explanations:
        return next(iter(self.maps.values()))

    def possible(self) -> dict[str, Any]:
        """Every metric whose needs are met."""
        found = {}
        for name, entry in METRICS.items():
            metric = METRICS.load(name)()
            if self.lacks(entry.needs, metric) is None:
                found[name] = metric
        if not found:
            raise OptionError(
                "Nothing can be measured: give the teacher (for faithfulness), or data with rationales (for "
                "plausibility)."
            )
        return found

    def lacks(self, needs: Sequence[str], metric: Any) -> str | None:
        """What stands in the way of a metric; None if nothing does."""
        if "teacher" in needs and self.teacher is None:
            return "asks the teacher: give it (--model)"
        if "teacher" in needs and self.teacher is not None and self.teacher.task.name == "reading":
            return "asks about a class or a score, and this teacher answers spans"
        if "rationale" in needs and not any(row.rationale for row in self.rows):
            return "needs rationales: give data that have some (--data)"
        if isinstance(metric, Stability | IouF1) and self.first.task == "image":
            return "compares words, and these are images"
        if "teacher" in needs and self.first.task == "image" and any(row.image is None for row in self.rows):
            return "asks about images, and files of explanations do not hold them: give the data (--data)"
        if "encoder" in needs and self.encoder is None and not isinstance(self.teacher, Model):
            return "needs an encoder that tells which rows mean the same (--encoder minilm), or a model (--model)"
        classes = self.teacher is None or self.teacher.classes is not None
        if isinstance(metric, Faithfulness) and metric.needs_classes and not classes:
            return "is about classes, and this teacher gives a score"
        return None

    def done(self, metrics: Mapping[str, Any], progress: bool) -> Evaluation:
        faults = [
            f"{name}: it {fault}."
            for name, metric in metrics.items()
            if (fault := self.lacks(_entry(name, metric).needs, metric)) is not None
        ]
        if faults:
            raise OptionError(" ".join([f"{len(faults)} of {len(metrics)} metrics cannot be measured.", *faults]))
        if self.teacher is not None and any(isinstance(one, Faithfulness) for one in metrics.values()):
            for maps in self.maps.values():
                check_targets(maps, self.teacher)
        found: dict[str, np.ndarray] = {}
        how: dict[str, str] = {}
        self._ask_teacher({n: m for n, m in metrics.items() if isinstance(m, Faithfulness)}, found, how, progress)
        words = {name: one if one.task == "image" else one.words() for name, one in self.maps.items()}
        predicted = replace(self.first, predictions=self._predictions())
        is_judged = any(isinstance(one, Plausibility) for one in metrics.values())
        marks = [marks_in(one, self.rows) for one in words.values()] if is_judged else []
        for name, metric in metrics.items():
            if isinstance(metric, Plausibility):
                pairs = zip(words.values(), marks, strict=True)
                found[name] = np.stack([metric(one, self.rows, own) for one, own in pairs])
                how[name] = "words by signed score" if metric.signed else "words by size"
            elif isinstance(metric, Stability):
                near = metric.near(predicted, self.rows, self._encoder(metric))
                settled = metric.for_all(list(words.values()))
                found[name] = np.stack([settled(one, self.rows, near) for one in words.values()])
                how[name] = settled.how
            elif name not in found:
                found[name] = np.array(
                    [
                        [_number(name, metric(one, row)) for one, row in zip(own, self.rows, strict=True)]
                        for own in self.maps.values()
                    ]
                )
        heading = "plausibility"
        if is_judged:
            heading = self._heading()
            self.notes += self._unread(marks[0])
        return Evaluation(
            tuple(metrics), tuple(self.maps), self.first.ids, np.stack([found[name] for name in metrics]), how,
            {name: self._bounds(name, metric) for name, metric in metrics.items()},
            {name: _entry(name, metric).better for name, metric in metrics.items()}, heading, tuple(self.notes),
        )  # fmt: skip

    def _bounds(self, name: str, metric: Any) -> tuple[float, float]:
        """What the metric can be: how far a score moves has no upper end."""
        if isinstance(metric, Faithfulness) and self.teacher is not None and self.teacher.classes is None:
            return 0.0, float("inf")
        return _entry(name, metric).bounds

    def _predictions(self) -> tuple[str, ...]:
        """The predicted class of each row: the teacher's answer, else what the explanations tell."""
        if self.teacher is not None and self.teacher.classes is not None:
            said = self.teacher.predict(self.rows, batch_size=self.batch_size)
            return tuple(self.teacher.classes[label] for label in said.labels)
        told = [one.predictions for one in self.maps.values()]
        return next((one for one in told if any(one)), told[0])

    def _ask_teacher(
        self, metrics: Mapping[str, Faithfulness], found: dict[str, np.ndarray], how: dict[str, str], progress: bool
    ) -> None:
        if not metrics:
            return
        assert self.teacher is not None
        probe = Probe(self.teacher, self.rows, replace=self.replace, batch_size=self.batch_size)
        with Progress("scoring faithfulness", total=len(self.rows), shown=progress) as bar:
            values = faithfulness(list(metrics.values()), list(self.maps.values()), probe, done=bar.advance)
        for name, value in zip(metrics, values, strict=True):
            found[name], how[name] = value, f"units are {probe.masked.description}"
        if "no mask token" in probe.masked.description:
            self.notes.append(f"What is taken away is {probe.masked.description}.")
        self.notes += self._about(probe)

    def _about(self, probe: Probe) -> Iterator[str]:
        """What a reader of faithfulness must know: another teacher than was explained, units that nobody scored."""
        own = remembered_fingerprint(self.teacher) if isinstance(self.teacher, Model) else None
        for name, maps in self.maps.items():
            told = maps.fingerprints.get("teacher")
            if own is not None and told is not None and told != own:
                yield f"{name} explains another teacher ({maps.teacher}) than is asked ({probe.teacher.name})."
            if probe.batch.pixels is not None or name == RANDOM:
                continue
            missing = [int((columns_of(one, probe, row) == len(one))[probe.masked.units[row]].sum())
                       for row, one in enumerate(maps)]  # fmt: skip
            if any(missing):
                rows = sum(count > 0 for count in missing)
                yield (
                    f"{name} scores no unit for {sum(missing):,} tokens that the teacher reads, in {rows:,} rows; they "
                    "always stay."
                )

    def _encoder(self, metric: Stability) -> Model | None:
        if not isinstance(metric, SemanticStability):
            return None
        if isinstance(self.encoder, str):
            task = task_named(self.first.task)
            classes = ("no", "yes") if task.has_classes else None
            data = Dataset("rows", task, {}, classes)
            self.encoder = build_model(self.encoder, data, truncate=True)
        found = self.teacher if self.encoder is None else self.encoder
        if not isinstance(found, Model):
            raise OptionError(f"An encoder is a model, or the name of one (minilm), not {type(found).__name__}.")
        return found

    def _unread(self, marks: Marks) -> Iterator[str]:
        """Marked words behind the end of what was explained."""
        if self.first.task == "image":
            return
        spans = [[span for span in row.rationale or () if isinstance(span, Span)] for row in self.rows]
        everything = sum(sum(marked_words(own, row.texts)) for own, row in zip(spans, self.rows, strict=True))
        known = sum(int(one.sum()) for one in marks)
        if known < everything:
            yield f"{everything - known:,} of {everything:,} marked words were not explained, and count for nothing."

    def _heading(self) -> str:
        """Whether rationales are the truth about this teacher."""
        if not isinstance(self.data, PlantedDataset) or self.teacher is None:
            return "plausibility"
        found = verify(self.teacher, self.data)
        said = (
            f"its answer stayed on {found.kept:.1%} of rows with all else drawn anew, and followed "
            f"{found.followed:.1%} of new rationales"
        )
        if found.verified:
            self.notes.append(f"The rationales are the truth about this teacher: {said}.")
            return "truth"
        self.notes.append(f"The teacher is not verified ({said}): rationales are those of the task, not its own.")
        return "plausibility"


# -- what is asked for ------------------------------------------------------------------------------------------------


def _metrics(asked: Sequence[str | Callable[..., Any]]) -> dict[str, Any]:
    """Metrics by what they are called, with their options; those of the caller's own by their names."""
    found: dict[str, Any] = {}
    for one in asked:
        if isinstance(one, str):
            spec = parse_spec(one)
            made = METRICS.load(spec.name)
            options = checked_options(spec.options, made, of=spec.name)
            check_types(options, made, of=spec.name)
            found[str(spec)] = made(**options)
        else:
            found[_own_name(one, found)] = one
    if not found:
        raise OptionError("Name a metric, or leave the choice to didact. `didact metrics` lists them.")
    return found


def _own_name(metric: Any, taken: Mapping[str, Any]) -> str:
    name = str(getattr(metric, "__name__", type(metric).__name__))
    if not callable(metric) or isinstance(metric, type):
        raise OptionError(f"A metric is a name, or a callable (explained, row) -> number, not {metric!r}.")
    if getattr(metric, "better", None) not in ("higher", "lower"):
        raise OptionError(f"Is a higher {name} better, or a lower one? Say so: {name}.better = 'higher' (or 'lower').")
    if name in METRICS or name in taken:
        raise OptionError(f"There is a metric named {name!r} already. Give yours another name.")
    return name


def _entry(name: str, metric: Any) -> MetricEntry:
    """What is to be known of a metric; of the caller's own, what it says itself."""
    known = parse_spec(name).name
    if known in METRICS:
        return METRICS[known]
    bounds = getattr(metric, "bounds", (-np.inf, np.inf))
    return MetricEntry("", "faithfulness", bounds, metric.better, (), "", "")


def _number(name: str, value: Any) -> float:
    try:
        return float("nan") if value is None else float(value)
    except (TypeError, ValueError):
        raise OptionError(f"Metric {name!r} is to give one number per row (or None), not {value!r}.") from None


def _replacement(replace: str | None, preset: str | None) -> str:
    if replace is not None:
        check_replace(replace)
    if preset is None:
        return replace or DEFAULT
    if preset not in PRESETS:
        raise OptionError(unknown("preset of removal", preset, list(PRESETS)))
    if replace not in (None, PRESETS[preset]):
        raise OptionError(
            f"Preset {preset!r} means replace={PRESETS[preset]}, and replace={replace} was asked for, too."
        )
    return PRESETS[preset]


def _sets(
    explanations: Any, data: Any, teacher: Teacher | None, level: str | None
) -> tuple[dict[str, Explanations], list[str]]:
    """Explanations by name, all with the rows of the first; and what must be told of files of other tools."""
    if level not in (None, *LEVELS):
        raise OptionError(f"Option 'level' is 'token' or 'word', not {level!r}.")
    is_one = isinstance(explanations, str | Path | Explanations) or not isinstance(explanations, Iterable)
    several = [explanations] if is_one else list(explanations)
    if not several:
        raise OptionError("There is nothing to measure: give explanations, or files of them.")
    check_given(several)
    found, said = opened(several, data, teacher)
    return matched(labelled({"all": [Set.of(one, level) for one in found]})["all"]), said


def _rows(maps: Explanations, data: Any) -> list[Row]:
    """The rows that were explained, with rationales where the data have them."""
    if data is None:
        images = maps.images or (None,) * len(maps)
        return [Row(name, texts, image) for name, texts, image in zip(maps.ids, maps.texts, images, strict=True)]
    known: dict[str, list[Row]] = {}
    for row in data.every_row() if isinstance(data, Dataset) else named_rows(data):
        known.setdefault(row.id, []).append(row)
    missing = [name for name in maps.ids if name not in known]
    if missing:
        raise DataError(
            f"{len(missing):,} of {len(maps):,} explained rows are not in the data. Give the data that they are of. "
            "Missing are:",
            missing,
        )
    found, other = [], []
    for name, texts in zip(maps.ids, maps.texts, strict=True):
        same = [row for row in known[name] if row.image is not None or row.texts == texts]
        found.append((same or known[name])[0])
        other += [] if same else [name]
    if other:
        raise DataError(f"{len(other):,} of {len(maps):,} explained rows have other texts in the data:", other)
    return found


def _labelled(
    rows: list[Row], data: Any, model: Teacher | Explanations, classes: Sequence[str] | None
) -> tuple[list[Row], str | None]:
    """The rows with labels as indices into the classes of what was explained: a metric of the caller's may read them.

    Labels that do not fit are left out, with a note, unless `classes` says which is which.
    """
    known = Split("explained", rows, data.classes if isinstance(data, Dataset | Split) else None)
    found, note = align_rows(known, model.classes, classes=classes, required=False)
    return list(found), note


def _random(maps: Explanations, seed: int, *, signed: bool) -> Explanations:
    """Scores drawn for each row: what an explanation that knows nothing reaches."""
    drawn = [numpy_generator(seed, "random", name).random(len(one)) for name, one in zip(maps.ids, maps, strict=True)]
    scores = np.concatenate([*drawn, np.zeros(0)])
    return replace(
        maps, method=RANDOM, options={}, fingerprints={}, kind="signed" if signed else "magnitude",
        scores=2 * scores - 1 if signed else scores, residuals=np.full(len(maps), np.nan), alignments=None,
        cautions=(),
    )  # fmt: skip
