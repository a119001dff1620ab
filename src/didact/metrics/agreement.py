"""Agreement of methods on the same rows: one number per row and pair of methods, NaN where undefined.

`AGREEMENT` lists the measures. Each is a function of the scores of rows with equal numbers of units, for all pairs of
methods at once; `agreement` divides ragged explanations into such blocks. Measures that need a teacher are classes
(metrics/prediction.py). To add a measure, write a function and a line in the table, which puts it into the contract
suite of tests/metrics/test_agreement.py.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from jaxtyping import Bool, Float, Int

from didact.errors import OptionError
from didact.metrics.same_units import check_same_units
from didact.option_types import check_option_types, renamed_option
from didact.registry import Entry, Registry, Spec, checked_options, parse_spec
from didact.results.explanations import Explanations
from didact.results.row_explanation import top_count

if TYPE_CHECKING:  # torch is imported only for measures that need a teacher
    from didact.metrics.prediction import Prediction
    from didact.metrics.probe import Probe

BLOCK: Final = 1_000_000  # rows × methods² × units per block: a few arrays of 8 MB
BY: Final = ("auto", "signed", "size")


@dataclass(frozen=True)
class MeasureEntry(Entry):
    """An agreement measure: its bounds, description and paper, how it treats ties, and where it is NaN.

    `needs_signs` is true for measures of signs only, which are undefined for methods without signs. `needs_teacher` is
    true for measures that compare the teacher's predictions. `usual` is what `by=auto` compares: `size` (absolute
    scores) or `signed`. `version` is part of the key of stored values: increase it when the same options give other
    values.
    """

    bounds: tuple[float, float]
    about: str
    paper: str
    ties: str
    undefined: str
    needs_signs: bool = False
    needs_teacher: bool = False
    usual: str = "size"
    version: int = 1


def _entry(name: str, low: float, about: str, paper: str, ties: str, undefined: str, **options: Any) -> MeasureEntry:
    return MeasureEntry(f"didact.metrics.agreement:{name}", (low, 1.0), about, paper, ties, undefined, **options)


_CONSTANT: Final = "one unit; all scores of a method equal"

AGREEMENT: Registry[MeasureEntry] = Registry(
    "measure of agreement",
    {
        "kendall": _entry(
            "kendall", -1, "Kendall's τ-b: pairs of units in the same order minus pairs in opposite order",
            "Kendall 1945; Neely et al. 2022", "tied pairs count for neither side and shrink the divisor", _CONSTANT,
        ),
        "spearman": _entry(
            "spearman", -1, "correlation of ranks", "Spearman 1904", "tied units share their mean rank", _CONSTANT,
        ),
        "pearson": _entry(
            "pearson", -1, "correlation of the scores themselves", "Pearson 1895", "ties have no effect", _CONSTANT,
        ),
        "weighted_tau": _entry(
            "weighted_tau", -1, "Kendall's τ-b with a unit of rank r weighing 1/r: the top counts most",
            "Vigna 2015", "as kendall; for its weight a tied unit ranks by the other method",
            _CONSTANT,
        ),
        "top_overlap": _entry(
            "top_overlap", 0, "share of the k highest units that both have in common", "Pruthi et al. 2022, Table 1",
            "of units tied at rank k, the first in the text count", f"{_CONSTANT}; k includes all units",
        ),
        "top_tau": _entry(
            "top_tau", -1, "order of the k highest units: 1 for the same list, −1 for the farthest apart",
            "Fagin et al. 2003, 2004",
            "of units tied at rank k, the first in the text count; a pair tied in one list alone costs p", _CONSTANT,
        ),
        "sign": _entry(
            "sign", 0, "share of units with the same sign, of those where neither score is 0",
            "Krishna et al. 2022", "none", "a method without signs; no unit with two scores other than 0",
            needs_signs=True, usual="signed",
        ),
        "prediction": MeasureEntry(
            "didact.metrics.prediction:Prediction", (0.0, 1.0),
            "share of rows of which the teacher predicts the same class from the k highest units of each",
            "Situ et al. 2021", "of units tied at rank k, the first in the text count",
            f"{_CONSTANT}; k includes all units", needs_teacher=True, usual="signed",
        ),
    },
    group="didact.agreement",
)  # fmt: skip


def agreement(
    explanations: Sequence[Explanations],
    measure: str | Spec = "kendall",
    *,
    by: str = "auto",
    names: Sequence[str] | None = None,
    probe: "Probe | None" = None,
) -> Float[np.ndarray, "row method method"]:
    """The measure of each pair of methods on each row. All must explain the same rows and units, in the same order.

    `by` is what is compared: absolute scores (`size`) or scores with their signs (`signed`). `auto` is `size`, as in
    Neely et al., and `signed` for `sign` and `prediction`, so that the value of a pair does not depend on the other
    methods. `names` are the names of the methods in errors. `probe` has the teacher and the rows, for measures that
    need a teacher. Raises `ShapeError` for different rows or units, and `OptionError` without a needed `probe`.
    """
    spec = parse_measure(measure)
    is_signed = resolve_by(spec, by) == "signed"
    check_same_units(explanations, names or [explanation.method for explanation in explanations])
    if AGREEMENT[spec.name].needs_teacher:
        if probe is None:
            raise OptionError(missing_teacher_message(spec))
        prediction: Prediction = AGREEMENT.load(spec.name)(**spec.options)
        return prediction(explanations, probe, by_size=not is_signed)
    compute = partial(AGREEMENT.load(spec.name), **spec.options)
    scores = np.stack([explanation.scores if is_signed else np.abs(explanation.scores) for explanation in explanations])
    bounds = explanations[0].bounds
    values = np.full((len(explanations[0]), len(explanations), len(explanations)), np.nan)
    for rows, units in _blocks(bounds, len(explanations)):
        indices = bounds[:-1][rows, None] + np.arange(units)
        values[rows] = compute(np.ascontiguousarray(scores[:, indices].swapaxes(0, 1)))
    if AGREEMENT[spec.name].needs_signs:
        unsigned = np.array([explanation.kind != "signed" for explanation in explanations])
        values[:, unsigned[:, None] | unsigned] = np.nan
    return values


def parse_measure(measure: str | Spec) -> Spec:
    """Parse a measure and check its options. Raises an error for unknown names, options and values."""
    spec = parse_spec(measure) if isinstance(measure, str) else measure
    function = AGREEMENT.load(spec.name)
    if AGREEMENT[spec.name].needs_teacher:
        spec = Spec(spec.name, renamed_option(spec.options, "remove", "replace"))
    checked_options(spec.options, function, of=spec.name)
    check_option_types(spec.options, function, of=spec.name)
    # Constructing it, or calling it on zeros, raises an error for invalid values of options.
    function(*([] if AGREEMENT[spec.name].needs_teacher else [np.zeros((1, 2, 2))]), **spec.options)
    return spec


def missing_teacher_message(spec: Spec) -> str:
    """The error message for a measure that needs a teacher."""
    return (
        f"Measure {str(spec)!r} asks the teacher what it predicts from the units that methods choose, and none was "
        "given. Pass the one that was explained: teacher=… (--model)."
    )


def resolve_by(spec: Spec, by: str) -> str:
    """Resolve `by` to `signed` or `size` for this measure."""
    if by not in BY:
        raise OptionError(f"Option 'by' must be {', '.join(BY[:-1])} or {BY[-1]}, got {by!r}.")
    needs_signs = AGREEMENT[spec.name].needs_signs
    if needs_signs and by == "size":
        raise OptionError(f"Measure {spec.name!r} compares signs, which by='size' removes. Leave `by` out.")
    return AGREEMENT[spec.name].usual if by == "auto" else by


def _blocks(bounds: Int[np.ndarray, " bound"], methods: int) -> Iterator[tuple[Int[np.ndarray, " row"], int]]:
    """Blocks of rows with the same number of units, of at most BLOCK entries. Rows without units are skipped."""
    lengths = np.diff(bounds)
    for units in np.unique(lengths[lengths > 0]).tolist():
        rows = np.flatnonzero(lengths == units)
        size = max(1, BLOCK // (methods**2 * units))
        for start in range(0, len(rows), size):
            yield rows[start : start + size], units


# -- measures: from the scores of rows with equal numbers of units to all pairs of methods ---------------------------


def kendall(scores: Float[np.ndarray, "row method unit"]) -> Float[np.ndarray, "row method method"]:
    """Kendall's τ-b, the cosine of two methods' orders of all pairs of units (−1, 0 or 1)."""
    agreed = np.zeros((*scores.shape[:2], scores.shape[1]))
    for order in _orders(_dense_ranks(scores)):
        agreed += order @ order.swapaxes(1, 2)
    return _cosines(agreed)


def spearman(scores: Float[np.ndarray, "row method unit"]) -> Float[np.ndarray, "row method method"]:
    """Pearson's r of the ranks."""
    from scipy import stats

    return pearson(stats.rankdata(scores, axis=-1))


def pearson(scores: Float[np.ndarray, "row method unit"]) -> Float[np.ndarray, "row method method"]:
    """Pearson's r, of scores rescaled to the range from 0 to 1, which avoids overflow and underflow."""
    largest = np.abs(scores).max(-1, keepdims=True)
    scores = np.divide(scores, largest, out=np.zeros_like(scores), where=largest > 0)
    scores = scores - scores.min(-1, keepdims=True)
    span = scores.max(-1, keepdims=True)
    scores = np.divide(scores, span, out=np.zeros_like(scores), where=span > 0)
    centred = np.where(span > 0, scores - scores.mean(-1, keepdims=True), 0.0)
    return _cosines(centred @ centred.swapaxes(1, 2))


def weighted_tau(scores: Float[np.ndarray, "row method unit"]) -> Float[np.ndarray, "row method method"]:
    """Vigna's τ with additive hyperbolic weights, as in `scipy.stats.weightedtau`.

    The mean of two values: with weights by the ranks of the one method (ties by the other) and the reverse. The weight
    of a pair is the sum of those of its units, so the agreement on all pairs that contain a unit suffices.
    """
    ranks = _dense_ranks(scores)
    rows, methods, units = scores.shape
    agreed = np.empty((units, rows, methods, methods))
    ordered = np.empty((units, rows, methods))
    for unit in range(units):
        order = np.sign(ranks - ranks[..., unit, None])
        agreed[unit] = order @ order.swapaxes(1, 2)
        ordered[unit] = np.abs(order).sum(-1)
    integer_ranks = ranks.astype(np.int64)
    keys = integer_ranks[:, :, None] * units + integer_ranks[:, None]
    best_first = np.argsort(-keys, axis=-1)  # units tied in both have equal agreement, so their order does not matter
    weights = np.empty(keys.shape)
    np.put_along_axis(weights, best_first, np.broadcast_to(1 / np.arange(1.0, units + 1), keys.shape), axis=-1)
    numerator = np.einsum("rabu,urab->rab", weights, agreed)
    first_weight = np.einsum("rabu,ura->rab", weights, ordered)
    second_weight = np.einsum("rabu,urb->rab", weights, ordered)
    denominator = np.sqrt(first_weight * second_weight)
    one_sided = np.divide(numerator, denominator, out=np.full(numerator.shape, np.nan), where=denominator > 0)
    return np.clip((one_sided + one_sided.swapaxes(1, 2)) / 2, -1, 1)


def top_overlap(
    scores: Float[np.ndarray, "row method unit"], *, k: float = 0.1
) -> Float[np.ndarray, "row method method"]:
    """|A ∩ B| / k for the k highest units of each. `k` is a number of units, or a share, rounded up."""
    size = top_count(k, scores.shape[-1])
    if size >= scores.shape[-1]:  # both sets contain all units
        return np.full((*scores.shape[:2], scores.shape[1]), np.nan)
    inside = _top(scores, size).astype(np.float64)
    return _nan_where_constant(inside @ inside.swapaxes(1, 2) / size, scores)


def top_tau(
    scores: Float[np.ndarray, "row method unit"], *, k: float = 0.1, p: float = 0.5
) -> Float[np.ndarray, "row method method"]:
    """1 − 2 K / K_max, where K is Fagin's distance K^(p) between the lists of the k highest units.

    K sums over all pairs of units in at least one list: 1 if the lists order them oppositely, p if only one list orders
    them, else 0. Units outside a list rank below it, unordered. Each list has exactly k units, or all units of shorter
    rows. K_max = k (k − 1) / 2 + e (k + (p − 1/2) (e − 1)), with e = min(k, units − k), is the largest distance: lists
    that share as few units as possible, with the shared ones last and in reverse order. With all units and no ties
    this is Kendall's τ. Random lists do not give 0: short lists from many units rarely overlap and give values near −1.
    """
    if not 0 <= p <= 1:
        raise OptionError(f"Option 'p' of top_tau must be between 0 and 1, got {p!r}.")
    units = scores.shape[-1]
    size = min(top_count(k, units), units)
    inside = _top(scores, size)
    list_ranks = np.where(inside, _dense_ranks(scores) + 1, 0)
    shape = (*scores.shape[:2], scores.shape[1])
    agreed, both, single = np.zeros(shape), np.zeros(shape), np.zeros(shape[:2])
    for order in _orders(list_ranks.astype(np.float32)):
        agreed += order @ order.swapaxes(1, 2)
        ordered = np.abs(order)
        both += ordered @ ordered.swapaxes(1, 2)
        single += ordered.sum(-1)
    marks = inside.astype(np.float64)
    exclusive = size - marks @ marks.swapaxes(1, 2)  # units in one list only; the same number for both lists
    # Pairs of a unit in one list and a unit in neither do not count in K, but were counted in `single`.
    unpaired = 2 * exclusive * (units - size - exclusive)
    distance = (both - agreed) / 2 + p * (single[:, :, None] + single[:, None] - 2 * both - unpaired)
    smaller = min(size, units - size)
    largest = size * (size - 1) / 2 + smaller * (size + (p - 0.5) * (smaller - 1))
    if not largest:
        return np.full(shape, np.nan)
    return _nan_where_constant(1 - 2 * distance / largest, scores)


def sign(scores: Float[np.ndarray, "row method unit"]) -> Float[np.ndarray, "row method method"]:
    """The share of units with equal signs, of those where neither score is 0."""
    signs = np.sign(scores)
    is_nonzero = np.abs(signs)
    counted = is_nonzero @ is_nonzero.swapaxes(1, 2)
    equal = (counted + signs @ signs.swapaxes(1, 2)) / 2
    return np.divide(equal, counted, out=np.full(counted.shape, np.nan), where=counted > 0)


def _dense_ranks(scores: Float[np.ndarray, "row method unit"]) -> Float[np.ndarray, "row method unit"]:
    """Ranks from 0 for the lowest score, without gaps; ties are equal. Differences cannot overflow or underflow."""
    from scipy import stats

    return (stats.rankdata(scores, method="dense", axis=-1) - 1).astype(np.float32)  # exact up to 16 million units


def _orders(ranks: Float[np.ndarray, "row method unit"]) -> Iterator[Float[np.ndarray, "row method pair"]]:
    """The order of each pair of units (−1, 0 or 1), one unit with all later ones at a time to save memory."""
    for unit in range(ranks.shape[-1] - 1):
        yield np.sign(ranks[..., unit + 1 :] - ranks[..., unit, None])


def _top(scores: Float[np.ndarray, "row method unit"], size: int) -> Bool[np.ndarray, "row method unit"]:
    """A mask of exactly `size` highest units; of tied units the first."""
    best = np.argsort(-scores, axis=-1, kind="stable")[..., :size]
    inside = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(inside, best, values=True, axis=-1)
    return inside


def _nan_where_constant(
    values: Float[np.ndarray, "row method method"], scores: Float[np.ndarray, "row method unit"]
) -> Float[np.ndarray, "row method method"]:
    """The values, with NaN where all scores of a method are equal."""
    is_constant = (scores == scores[..., :1]).all(-1)
    return np.where(is_constant[:, :, None] | is_constant[:, None], np.nan, values)


def _cosines(products: Float[np.ndarray, "row method method"]) -> Float[np.ndarray, "row method method"]:
    """Cosines from scalar products; NaN where a vector is 0."""
    squares = np.einsum("rmm->rm", products)
    lengths = np.sqrt(squares[:, :, None] * squares[:, None])
    return np.clip(np.divide(products, lengths, out=np.full(lengths.shape, np.nan), where=lengths > 0), -1, 1)
