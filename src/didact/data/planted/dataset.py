"""`PlantedDataset`: generated rows in splits, with their labelling function."""

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from didact.core.dataset import SPLITS, Dataset, Split
from didact.core.row import Label, Row
from didact.core.teacher import Teacher
from didact.data.planted.rules import RandomStream, Region, Rules, check_integers, inputs_of, keep_rationale
from didact.errors import OptionError

SIZES: Final = {"teach": 12_000, "explain": 2_000, "train": 2_000, "dev": 400, "test": 2_000}
_MAX_REPEATS: Final = 1_000  # repeated draws in succession after which the options are said to allow too few rows


@dataclass(frozen=True, eq=False, repr=False)
class PlantedDataset(Dataset):
    """A generated data set with its labelling function, `rules`."""

    rules: Rules[Any] = field(kw_only=True)

    def oracle(self) -> Teacher:
        """The labelling function as a teacher."""
        return self.rules.oracle()

    def redraw(self, row: Row, region: Region, seed: int = 0) -> Row:
        """The row with one region redrawn and the other unchanged.

        Redrawing `"rest"` preserves the label. Redrawing `"rationale"` gives a new label and rationale.
        """
        if region not in ("rest", "rationale"):
            raise OptionError(f"Option 'region' must be 'rest' or 'rationale', not {region!r}.")
        rng = RandomStream(seed, self.name, "redraw", region, row.id)
        return self.rules.row(row.id, self.rules.redraw(inputs_of(row), region, rng))

    def label_from(self, row: Row) -> Label | None:
        """The label of the rationale alone, with everything else removed. None if it decides nothing."""
        return self.rules.read(keep_rationale(row)).label


def generator(rules: type[Rules[Any]]) -> Callable[..., PlantedDataset]:
    """A function that generates a data set from these rules.

    Its options are the seed, the size of each split, and the options of the rules.
    """

    def planted(*, seed: int = 0, **options: Any) -> PlantedDataset:
        sizes = {name: options.pop(name, size) for name, size in SIZES.items()}
        return plant(rules(**options), seed=seed, **sizes)

    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = ({"seed": 0} | SIZES).items()
    parameters = [inspect.Parameter(name, keyword, default=default, annotation=int) for name, default in shared]
    signature = inspect.Signature([*parameters, *inspect.signature(rules).parameters.values()])
    planted.__doc__ = rules.__doc__
    setattr(planted, "__signature__", signature)  # noqa: B010 - known to inspect, not to mypy
    return planted


def plant(rules: Rules[Any], *, seed: int, **sizes: int) -> PlantedDataset:
    """Generate the splits. No two rows of the data set have the same inputs.

    Each split has its own random stream. If two splits draw the same inputs, the later one in the order test, dev,
    train, explain, teach draws again, so the test split never depends on the size of any other. Raises `OptionError` if
    the options allow too few different rows.
    """
    check_integers(0, **sizes)
    used_digests: set[bytes] = set()
    splits = {name: _split(rules, name, sizes[name], seed, used_digests) for name in reversed(SPLITS)}
    return PlantedDataset(
        rules.name,
        rules.task,
        {name: splits[name] for name in SPLITS},
        classes=rules.classes,
        segments=rules.segments,
        rules=rules,
    )


def _split(rules: Rules[Any], name: str, size: int, seed: int, used_digests: set[bytes]) -> Split:
    rng, rows, repeats = RandomStream(seed, rules.name, name), list[Row](), 0
    while len(rows) < size:
        row = rules.row(f"{name}-{len(rows)}", rules.draw(rng, name))
        digest = hashlib.sha256(row.content).digest()
        if digest not in used_digests:
            used_digests.add(digest)
            rows.append(row)
            repeats = 0
        elif (repeats := repeats + 1) == _MAX_REPEATS:
            raise OptionError(
                f"Option {name!r} asks for {size} rows, but with these options {rules.name} has too few different "
                f"rows: after {len(rows)} rows, {repeats} draws in a row repeated earlier rows. Ask for fewer rows, "
                "or for longer or more varied ones."
            )
    return Split(name, rows)
