"""The analysis of a study by its folder."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from didact.results.study_analysis import StudyAnalysis
from didact.study.analyze import analyze
from didact.study.database import open_answers
from didact.study.design import read_design


def analyze_study(
    folder: Path | str,
    *,
    replicates: int = 2000,
    level: float = 0.95,
    seed: int = 0,
    difference: float | None = None,
    leave_out: Sequence[str] = (),
    database: str | None = None,
) -> StudyAnalysis:
    """What people's answers amount to; also kept in the folder as `analysis.json`, for `didact report --study`.

    See `didact.study.analyze.analyze` for the options. `database` is an SQLAlchemy URL, where answers are not in the
    folder.
    """
    folder = Path(folder)
    design = read_design(folder)
    with closing(open_answers(folder, design, database)) as answers:
        given = answers.read()
    analysis = analyze(
        design, given, replicates=replicates, level=level, seed=seed, difference=difference, leave_out=leave_out
    )
    analysis.save(folder)
    return analysis
