"""Pages as tests read them: blocks of code, links, headings; and the size at which their examples are run."""

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
# The one way to leave a block out, on the line before it; which blocks may is listed in test_blocks.py.
SKIP = re.compile(r"<!-- test: skip because (.+) -->")

# Examples are run as they are written, but on a small scale. Each line here is used by some page.
SMALL = (
    (r"(?m)^didact demo(?=\s|$)", "didact demo --quick"),
    (r"--items 30\b", "--items 4"),
    (r"\bseeds=8\b", "seeds=1"),
    (r"--seeds 8\b", "--seeds 1"),
    (r"--seeds 12\b", "--seeds 2"),
    (r"\b((?:train_)?sizes)=160\b", r"\1=20"),
    (r"--((?:train-)?sizes) 160\b", r"--\1 20"),
    (r"\btrain_sizes=\[500\]", "train_sizes=[20]"),
    (r"\btrain_sizes = \[250, 500\]", "train_sizes = [20]"),
    (r"\bseeds = 8\b", "seeds = 1"),
    (r"\bdidact learn smat\b", "didact learn smat --size 10 --batch-size 4"),
    (r", 500\)", ", 20)"),
    (r"\bsamples=(200|1000)\b", "samples=16"),
    (r"\beval_rows ?= ?200\b", "eval_rows=6"),
    (r"--rows (20|50|500)\b", "--rows 6"),
    (r"--items 60\b", "--items 6"),
    (r"\bitems=60\b", "items=6"),
    (r"\[:(50|100)\]", "[:6]"),
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line it starts on, and why it is left out, if it is."""

    page: Path
    line: int
    language: str
    text: str
    skipped: str | None

    @property
    def where(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    found: list[Block] = []
    language, start, text, before = None, 0, [], ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = re.match(r"\s*```(.*)", line)
        if fence is None:
            if language is None:
                before = line if line.strip() else before
            else:
                text.append(line)
        elif language is None:
            language, start, text = fence[1].strip(), number, []
        else:
            reason = SKIP.fullmatch(before.strip())
            found.append(Block(page, start, language, "\n".join(text) + "\n", reason[1] if reason else None))
            language, before = None, ""
    assert language is None, f"{name_of(page)}: the block of line {start} is not closed"
    return tuple(found)


def small(code: str) -> str:
    """The same at a size that suits a test."""
    for pattern, less in SMALL:
        code = re.sub(pattern, less, code)
    return code


def commands(block: Block) -> list[str]:
    """The lines of a shell block, those that go on joined."""
    joined = re.sub(r"\\\n\s*", "", block.text)
    return [line for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]


@cache
def anchors(page: Path) -> frozenset[str]:
    """Ids of a page's headings, as Python-Markdown makes them."""
    found: list[str] = []
    for line in prose(page).splitlines():
        heading = re.match(r"#{1,6} (.+)", line)
        if heading is None:
            continue
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
        plain = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
        name = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
        count = sum(one == name or re.fullmatch(rf"{re.escape(name)}_\d+", one) is not None for one in found)
        found.append(f"{name}_{count}" if count else name)
    return frozenset(found)


@cache
def prose(page: Path) -> str:
    """A page without its blocks and without code in its lines."""
    text = re.sub(r"^\s*```.*?^\s*```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def links(page: Path) -> list[str]:
    return re.findall(r"!?\[[^\]]*\]\(([^)\s]+)\)", prose(page), re.DOTALL)
