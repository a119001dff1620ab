"""Checks words: variable names that say nothing in src/, and retired words in src/, README.md and docs/.

    python .ci/lint_words.py [--counts] [PATH …]

docs/glossary.md has the words that take their place. Decisions are history and are not checked. With --counts it
prints how often each word occurs instead of where.
"""

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Names that do not say what they hold.
VAGUE = frozenset(
    [
        *("asked", "dice", "found", "given", "heat", "held", "kept", "known", "one", "own", "part", "place", "said"),
        *("slope", "told", "wanted"),
    ]
)

# Phrases that a reader has to translate, with what to write instead.
RETIRED = {
    r"anew": "again; resampled",
    r"are none|is none(?! of)": "there is no …; must be …",
    r"classroom(?![/\"])": "run inputs",  # the folder of a run keeps its name
    r"crew": "process pool",
    r"desk|errand|parcel": "worker; job; files",
    r"foretold|foretells?": "predicted; predicts",
    r"go(?:es)? on": "continue; resume",
    r"lies(?! between)": "is; stands",
    r"mend(?:s|ed|ing)?": "fix",
    r"nobody(?:'s)?": "no one; name who does not",
    r"pupil": "student",
    r"roster": "setup",
    r"slopes?": "gradient",
    r"so many": "the number of …",
    r"(?<!\.)tells?|told": "says; reports; shows",  # file.tell() is Python
}
# Words that are data, not language: texts that planted data are made of, and names in stored files.
_DATA = {
    ("src/didact/data/planted/texts.py", "desk"),
    ("src/didact/data/planted/texts.py", "told"),
    ("src/didact/learning/smat.py", "pupil"),
    ("src/didact/results/training_record.py", "kept"),
}
_RETIRED = {re.compile(rf"\b(?:{pattern})\b"): advice for pattern, advice in RETIRED.items()}


def vague_names(path: Path) -> Iterator[tuple[int, str]]:
    """Variables and parameters that say nothing: line and name."""
    vague = VAGUE - {name for file, name in _DATA if file == path.resolve().relative_to(ROOT).as_posix()}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in vague:
            yield node.lineno, node.id
        elif isinstance(node, ast.arg) and node.arg in vague:
            yield node.lineno, node.arg


def retired_words(path: Path) -> Iterator[tuple[int, str, str]]:
    """Retired words: line, word and what to write instead. `is None` in code is not English."""
    where = path.resolve().relative_to(ROOT).as_posix()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for pattern, advice in _RETIRED.items():
            for match in pattern.finditer(line):
                if (where, match.group()) not in _DATA:
                    yield number, match.group(), advice


def texts(paths: Sequence[Path]) -> Iterator[Path]:
    """The files to check: Python, templates and Markdown below these paths."""
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in files if file.suffix in (".py", ".j2", ".md") and "decisions" not in file.parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="files and folders; by default src, README.md and docs")
    parser.add_argument("--counts", action="store_true", help="print counts instead of lines")
    counts: Counter[str] = Counter()
    lines = []
    options = parser.parse_args()
    for path in texts(options.paths or [ROOT / "src", ROOT / "README.md", ROOT / "docs"]):
        where = path.resolve().relative_to(ROOT)
        is_ours = path.suffix == ".py" and "src" in where.parts
        for number, name in vague_names(path) if is_ours else ():
            counts[f"variable {name}"] += 1
            lines.append(f"{where}:{number}: variable {name!r} does not say what it holds")
        for number, word, advice in retired_words(path):
            counts[word] += 1
            lines.append(f"{where}:{number}: {word!r} is retired. Write: {advice}")
    if options.counts:
        lines = [f"{count:5d}  {word}" for word, count in counts.most_common()]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
