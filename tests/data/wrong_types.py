"""Calls with arguments of wrong types, run by `test_wrong_types.py` in a process whose annotations nobody checks.

Says one line for each call that does not end in a `DidactError`.
"""

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import didact
from didact.errors import DidactError


def answer(texts):
    return [[0.5, 0.5]] * len(texts)


FOLDER = Path(tempfile.mkdtemp())
TEACHER = didact.teacher_from_function(answer, ["no", "yes"])
FILE = FOLDER / "x.jsonl"
FILE.write_text('{"text": "good", "label": "yes"}\n{"text": "bad", "label": "no"}\n')
np.savez(FOLDER / "numbers.npz", scores=np.ones((1, 1)), tokens=np.ones((1, 1)))
SCORES = ([[1.0]], [["good"]])


def data(source=FILE, **options):
    return lambda: didact.load_data(source, **options)


def teacher(source="x/y/z", **options):
    return lambda: didact.load_teacher(source, **options)


def function(predict=answer, classes=("no", "yes"), **options):
    return lambda: didact.teacher_from_function(predict, classes, **options)


def explain(rows=("good",), method="occlusion", **options):
    return lambda: didact.explain(TEACHER, rows, method, **options)


def read(source=SCORES, rows=("good",), **options):
    return lambda: didact.read_explanations(source, list(rows), **options)


def shap(**fields):
    one = {"values": [np.ones((1, 2))], "data": [["good"]], "base_values": np.zeros((1, 2)), "output_names": None}
    return SimpleNamespace(**one | fields)


CALLS = {
    "load_data columns list": data(columns=["text"]),
    "load_data columns number": data(columns={"text": 5}),
    "load_data columns role": data(columns={5: "text"}),
    "load_data classes number": data(classes=5),
    "load_data classes text": data(classes="yes"),
    "load_data classes twice": data(classes=["yes", "yes"]),
    "load_data task": data(task=5),
    "load_data seed text": data(seed="x"),
    "load_data seed nan": data(seed=float("nan")),
    "load_data data_dir": data(data_dir=5),
    "load_data number": data(5),
    "load_data none": data(None),
    "load_data list": data(["a", "b"]),
    "load_data bytes": data(b"x"),
    "load_teacher max_length text": teacher(max_length="5"),
    "load_teacher max_length 0": teacher(max_length=0),
    "load_teacher task": teacher(task=5),
    "load_teacher classes": teacher(classes="yes"),
    "load_teacher none": teacher(None),
    "load_teacher number": teacher(5),
    "function none": function(None),
    "function text": function("x"),
    "function absent": function(absent=5),
    "function task": function(task=5),
    "function output": function(output=5),
    "function patch": function(patch="x"),
    "function classes text": function(classes="yes"),
    "function classes twice": function(classes=["yes", "yes"]),
    "function classes number": function(classes=5),
    "function regression with classes": function(task="regression"),
    "explain preset": explain(preset=5),
    "explain out": explain(out=5),
    "explain out empty": explain(out=""),
    "explain out null": explain(out="a\0b"),
    "explain set": explain({"a", "b"}),
    "explain frozenset": explain(frozenset(["a"])),
    "explain dict": explain({"a": "b"}),
    "explain bytes": explain(b"ab"),
    "explain number": explain(5),
    "explain none": explain(None),
    "explain method": explain(method=5),
    "explain batch_size text": explain(batch_size="x"),
    "explain batch_size huge": explain(batch_size=10**30),
    "explain batch_size 0": explain(batch_size=0),
    "explain seed": explain(seed="x"),
    "explain target": explain(target=[1]),
    "explain level": explain(level=5),
    "read tokens number": read({"scores": [[1.0]]}, tokens=5),
    "read tokens none": read({"scores": [[1.0], [1.0]]}, ["good", "bad"], tokens=[None, None]),
    "read tokens texts": read({"scores": [[1.0]]}, tokens=["good"]),
    "read format": read(format=5),
    "read kind": read(kind=5),
    "read teacher": read(teacher=5),
    "read target": read(target=1.5),
    "read source number": read(5),
    "read source none": read(None),
    "read source as arrays": read(5, format="arrays"),
    "read source as eraser": read(5, format="eraser"),
    "read source as captum": read(5, format="captum"),
    "read rows": lambda: didact.read_explanations(SCORES, 5),
    "read numbers as tokens": read(FOLDER / "numbers.npz"),
    "shap data none": read(shap(data=[None])),
    "shap target half": read(shap(), target=1.5),
    "shap values none": read(shap(values=None)),
    "shap base nan": read(shap(base_values=np.full((1, 2), np.nan))),
    "shap base inf": read(shap(base_values=np.array([[np.inf, 0]]))),
    "distribution of another sum": read(([[0.0, 1.0, 5.0]], [["a", "b", "c"]]), ["a b c"], kind="distribution"),
}  # fmt: skip


def main() -> list[str]:
    wrong = []
    for name, call in CALLS.items():
        try:
            call()
            wrong.append(f"{name}: accepted")
        except DidactError as error:
            wrong += [] if str(error).strip() else [f"{name}: no message"]
        except BaseException as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}")
    return wrong


if __name__ == "__main__":
    sys.exit("\n".join(main()) or None)
