"""Studies in small: explanations by hand, a study of each kind, and people who answer it through the test client."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fastapi.testclient import TestClient

from didact.core.dataset import Dataset, Split
from didact.core.row import Row
from didact.core.task import task_named
from didact.results.explanations import Explanations
from didact.study.app import create_app
from didact.study.auth import read_keys
from didact.study.create import new_study
from didact.study.design import read_design

CLASSES = ("bad", "good")
WORDS = ("plot", "dull", "bright", "film", "not", "actors")


def rows_of(
    count: int, *, task: str = "classification", wrong: float = 0.5, text: str = ""
) -> tuple[Dataset, list[str]]:
    """Rows and the model's answers, of which a share is wrong; both classes are equally often right and said."""
    dice = np.random.default_rng(0)
    rows, said = [], []
    for number in range(count):
        words = " ".join(dice.permutation(WORDS))
        label = number % 2
        is_wrong = (number // 2) % 10 < round(10 * wrong)
        said.append(CLASSES[1 - label if is_wrong else label])
        texts: tuple[str, ...] = (f"{text}{words} {number}",)
        image = None
        if task == "pair":
            texts = (*texts, f"second {number} here")
        if task == "image":
            texts, image = (), dice.integers(0, 255, (16, 16, 3), dtype=np.uint8)
        rows.append(Row(f"r{number}", texts, image, label))
    return Dataset("small", task_named(task), {"test": Split("test", rows)}, CLASSES), said


def maps_of(data: Dataset, said: Sequence[str], method: str, *, kind: str = "magnitude", seed: int = 0) -> Explanations:
    """Scores by chance for every word (or for four patches of a picture)."""
    dice = np.random.default_rng(seed)
    tokens: list[str] = []
    segments: list[int] = []
    words: list[int] = []
    offsets: list[Sequence[int]] = []
    bounds = [0]
    is_image = data.task.name == "image"
    for row in data["test"]:
        if is_image:
            for place, (top, left) in enumerate(((0, 0), (0, 8), (8, 0), (8, 8))):
                tokens.append(f"patch {place}")
                segments.append(0)
                words.append(place)
                offsets.append((top, left, top + 8, left + 8))
        for segment, text in enumerate(row.texts):
            for place, match in enumerate(re.finditer(r"\S+", text)):
                tokens.append(match.group())
                segments.append(segment)
                words.append(place)
                offsets.append(match.span())
        bounds.append(len(tokens))
    scores = dice.normal(size=len(tokens))
    count = len(data["test"])
    return Explanations(
        method=method,
        kind=kind,
        options={},
        task=data.task.name,
        classes=CLASSES,
        teacher="tiny",
        fingerprints={},
        ids=data["test"].ids,
        texts=tuple(row.texts for row in data["test"]),
        bounds=np.array(bounds),
        tokens=tuple(tokens),
        segments=np.array(segments),
        word_index=np.array(words),
        offsets=np.array(offsets).reshape(len(tokens), 4 if is_image else 2),
        scores=scores if kind == "signed" else np.abs(scores),
        targets=tuple(said),
        predictions=tuple(said),
        residuals=np.full(count, np.nan),
    )


METHODS = ("secret_alpha", "secret_beta", "secret_gamma")


def study_of(
    folder: Path, kind: str = "ranking", *, task: str = "classification", methods: Sequence[str] = METHODS,
    rows: int = 40, text: str = "", **options: Any,
) -> Path:  # fmt: skip
    """A small study in `folder`."""
    data, said = rows_of(rows, task=task, text=text)
    maps = [maps_of(data, said, method, seed=number) for number, method in enumerate(methods)]
    options = {"items": 6, "annotators": 2} | options
    return new_study(maps, data, out=folder, kind=kind, **options)


class Someone:
    """A person at a browser: follows the link, agrees, answers. `answer` sends a form to a page."""

    def __init__(self, folder: Path, number: int = 1, *, app: Any = None) -> None:
        self.folder = folder
        self.app = app or create_app(folder)
        self.design = read_design(folder)
        self.cookie = self.app.state.study.cookie
        self.client = TestClient(self.app, base_url="http://study.test", raise_server_exceptions=False)
        self.code = read_keys(folder).code(number)

    def arrive(self) -> "Someone":
        self.client.get(f"/i/{self.code}")
        return self

    def agree(self) -> "Someone":
        self.arrive()
        answer = self.client.post("/consent", data={"csrf": self.token("/"), "agree": "yes"})
        assert answer.status_code == 200, answer.text
        return self

    def token(self, path: str) -> str:
        found = re.search(r'name="csrf" value="(\w+)"', self.client.get(path).text)
        assert found is not None, path
        return found.group(1)

    def fields(self, number: int) -> dict[str, str]:
        """A good answer to page `number`."""
        own = {
            "ranking": {
                f"rank-{code}": str(place + 1) for place, code in enumerate("abcdefgh"[: len(self.design.methods)])
            },
            "simulation": {"choice": "1"},
            "rating": {"rating": "3"},
        }[self.design.kind]
        return {"csrf": self.token(f"/task/{number}"), "seconds": "3.5", "touched": "1", **own}

    def answer(self, number: int, *, json: bool = True, **changed: str | None) -> Any:
        fields = {**self.fields(number), **changed}
        return self.send(number, {name: value for name, value in fields.items() if value is not None}, json=json)

    def send(self, number: int, fields: dict[str, str], *, json: bool = True) -> Any:
        headers = {"accept": "application/json" if json else "text/html"}
        return self.client.post(f"/task/{number}", data=fields, headers=headers, follow_redirects=False)

    def stored(self) -> list[Any]:
        return self.app.state.study.answers.read()
