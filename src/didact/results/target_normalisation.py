"""Target normalisation, by name: what is done about the sharpness of explanations before students receive them.

Sharpness adds no information, but changes what students learn. A comparison names one of five ways to treat it; the
same for all methods. docs/compare.md describes them, decision 050 gives the reasons; `target_transform` computes them.
"""

from collections.abc import Mapping
from typing import Final, Literal, get_args

TargetNormalisation = Literal["raw", "tuned", "matched", "ranks", "band"]
RAW: Final = "raw"
TUNED: Final = "tuned"
MATCHED: Final = "matched"
RANKS: Final = "ranks"
BAND: Final = "band"
NAMES: Final[tuple[str, ...]] = get_args(TargetNormalisation)
# The temperatures of `tuned` and `band`, from flat to sharp.
GRIDS: Final[Mapping[str, tuple[float, ...]]] = {TUNED: (4.0, 2.0, 1.0, 0.5, 0.25), BAND: (4.0, 1.0, 0.25)}
# Entropy of a row of n units under `matched` and `ranks`, as a share of log n.
ENTROPY_SHARE: Final = 0.65
_TEMPERATURE: Final = " (T="  # between method and temperature in the name of an arm


def band_arm(method: str, temperature: float) -> str:
    """The name of a method at one temperature of a band, as results.parquet and contrasts have it."""
    return f"{method}{_TEMPERATURE}{temperature:g})"


def method_of_arm(arm: str) -> str:
    """The method of an arm, whether it is one of a band or not."""
    return arm.partition(_TEMPERATURE)[0]


def describe(normalisation: str, temperatures: tuple[float, ...]) -> str:
    """A sentence for readers of the table and the report. Empty for `raw`."""
    grid = ", ".join(f"{value:g}" for value in temperatures)
    sentences = {
        TUNED: f"each student gets its explanations at the temperature from {grid} that is best on dev. Students "
        "without explanations choose among as many first weights",
        MATCHED: f"every explanation has {100 * ENTROPY_SHARE:g} % of the largest possible entropy of its row, by a "
        "temperature for each row. Equal entropy is not neutral: some profiles lose more by it than others",
        RANKS: "every explanation has one profile over the ranks of its scores, whatever their sizes",
        BAND: f"every method is sent at the temperatures {grid}. Gains go from the lowest to the highest over them, "
        "each with its interval; ranks and contrasts are those of the highest",
    }
    return f"Target normalisation {normalisation}: {sentences[normalisation]}." if normalisation in sentences else ""
