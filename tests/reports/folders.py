"""Folders of runs written by hand, for tests of reports: nothing is trained, and every number follows from a seed."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
from PIL import Image

from didact.files.table_io import Table, write_table
from didact.results.explanations import Explanations
from didact.results.task_kinds import task_kind

METHODS = ("attention_all", "gradient_norm", "lime(samples=100)")
CONTROLS = ("random", "trivial", "human")
HOSTILE = (
    "<script>document.title='run'; alert(1)</script> </script><script>alert(2)</script>",
    "<img src=x onerror=alert(3)> \"quoted\" 'single' `tick` {{braces}} javascript:alert(4)",
    "]]> --> <!-- <style>*{display:none}</style> </noscript><svg onload=alert(5)> &lt;b&gt; \\u003cb\\u003e",
    "null \x00 bell \x07 escape \x1b[31m line\u2028paragraph\u2029mark\u202eover\ufeff end",
    "שלום עולם and مرحبا بالعالم mixed with English 123",
    "thumbs 👍🏽 family 👩‍👩‍👧‍👦 flag 🏳️‍🌈 astral 𝒳𝒴 combined e\u0301 end",
)

_KINDS = {
    "random": "magnitude", "trivial": "binary", "human": "binary", "attention_all": "distribution",
    "gradient_norm": "magnitude", "smat": "distribution",
}  # fmt: skip
_WORDS = [
    "a", "the", "of", "and", "film", "plot", "story", "actor", "great", "awful", "good", "bad", "not", "very", "dull",
    "bright", "key", "morning", "show", "silly",
]  # fmt: skip
_MEASURES = {"regression": "pearson", "reading": "f1"}
_RESULTS = {
    "key": "string", "explainer": "string", "student": "string", "size": "int64", "seed": "int64", "status": "string",
    "measure": "string", "value": "float64", "dev": "float64", "epoch": "int64", "trial": "int64",
    "lost_rows": "int64", "error": "string",
}  # fmt: skip
_METRICS = {"comprehensiveness": "higher", "sufficiency": "lower", "roc_auc": "higher", "iou_lexical": "higher"}


def write_run(
    folder: Path,
    *,
    task: str = "classification",
    methods: Sequence[str] = METHODS,
    controls: Sequence[str] = CONTROLS,
    kinds: Mapping[str, str] | None = None,
    students: Sequence[str] = ("same/attention",),
    sizes: Sequence[int] = (250,),
    seeds: int = 3,
    failed: int = 0,
    gains: Mapping[str, float] | None = None,
    spread: float = 0.02,
    error: float | None = None,
    contrasts: bool = True,
    measured: bool = True,
    rows: int = 6,
    texts: Sequence[Sequence[str]] | None = None,
    ids: Sequence[str] | None = None,
    told: Sequence[Mapping[str, object]] = (),
    classes: Sequence[str] = ("negative", "positive"),
    rationales: bool = True,
    picture: tuple[int, int] = (48, 32),
    cut: Callable[[str], list[tuple[int, int]]] | None = None,
    missing: Sequence[str] = (),
    damaged: Sequence[str] = (),
    skipped: Mapping[str, str] | None = None,
    metrics: bool = True,
    agreement: bool = True,
    cost: bool = True,
    notes: Sequence[str] = (),
    learned: bool = False,
    teacher: str = "distilbert-sst2",
    about: Mapping[str, object] | None = None,
    seed: int = 0,
) -> Path:
    """Write the folder of a run as `didact compare … --eval-rows` does, and give it back.

    Of the comparison: `methods` and `controls` are labels (`none` is always there), each with all `students`, `sizes`
    and so many `seeds`; `gains` sets the mean gain of a label, else it is drawn, with intervals of `spread` around it;
    every two arms have a contrast with the standard error `error` (a fourth of `spread`), unless `contrasts` is false.
    The last `failed` cells of the last method have failed. With `learned` a method `smat` has kept its mixes.

    Of what was measured (`measured=False` leaves it out): `rows` rows of the `task`, or as many as `texts` has (one
    tuple of texts per row; images have none and are drawn, of size `picture`, height and width); `kinds` sets a label's
    kind of scores; `cut` gives the (start, end) of the units of a text, by default its words and signs; `told` holds
    for the first rows what they say instead (gold, prediction, is_right, sureness, agreement, rationale, picture). The
    files of labels in `missing` are not there, those in `damaged` cannot be read; `skipped` are labels with the reason.
    `metrics`, `agreement` and `cost` may be left out. The same arguments write the same folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    if learned and "smat" not in methods:
        methods = (*methods, "smat")
    labels = ["none", *controls, *methods]
    measure = _MEASURES.get(task, "accuracy")
    grid = [(student, size) for student in students for size in sizes]
    means = {label: float(random.normal(0.04, 0.04)) for label in labels} | {"none": 0.0, **(gains or {})}
    lines, found, pairs, lost = [], [], [], _failed(methods, grid, seeds, failed)
    for student, size in grid:
        start = 0.6 + 0.05 * sizes.index(size)
        values = {
            label: {
                number: min(start + means[label] + float(random.normal(0, spread / 4)), 1.0)
                for number in range(seeds) if (label, student, size, number) not in lost
            }
            for label in labels
        }  # fmt: skip
        found += _gains(values, student, size, measure, controls=controls, spread=spread)
        pairs += _contrasts(values, student, size, error=spread / 4 if error is None else error)
        lines += _cells(values, student, size, measure, lost)
    _write_results(folder / "results.parquet", lines, measure)
    document = {
        "rows": found,
        "contrasts": pairs if contrasts else None,
        "failed": [
            {"key": _key(*cell), "explainer": cell[0], "student": cell[1], "size": cell[2], "seed": cell[3],
             "error": "the loss is not a number"}
            for cell in lost
        ],
        "notes": list(notes),
        "about": {
            "didact": "0.1.0", "teacher": teacher, "teacher_fingerprint": "ab12", "data": "planted/sentiment",
            "data_fingerprint": "cd34", "task": task, "measure": measure, "controls": ["none", *controls],
            "seeds": list(range(seeds)), "tune": {}, "starts": {"same": "random"}, "torch": "2.9.0",
            "cells": len(labels) * len(grid) * seeds, "train_rows": 2000,
            "plan": f'model = "{teacher}"\nseeds = {list(range(seeds))}\n', **(about or {}),
        },
        "agreement": {
            "columns": [{"student": student, "size": size} for student, size in grid],
            "tau": np.full((len(grid), len(grid)), 0.6).tolist(),
        },
        "ranking": [],
        "learned": _mixes(grid, seeds, random) if learned else [],
    }  # fmt: skip
    _write(folder / "comparison.json", document)
    if measured:
        own = [label for label in labels if label != "none" and label not in (skipped or {})]
        kinds = {label: _KINDS.get(label, "signed") for label in own} | dict(kinds or {})
        chosen = _texts(task, rows, random) if texts is None else [tuple(one) for one in texts]
        names = [f"test-{number}" for number in range(len(chosen))] if ids is None else list(ids)
        maps = {
            label: _explanations(
                label, kinds[label], task, names, chosen, classes, picture, cut or _words, random, teacher=teacher
            )
            for label in own
        }
        files = {label: f"measured/{number}-{_file(label)}.parquet" for number, label in enumerate(own)}
        for label, one in maps.items():
            if label not in missing:
                one.save(folder / files[label])
            if label in damaged:
                (folder / files[label]).write_bytes(b"PAR1 no longer")
        document = {
            "didact": "0.1.0", "key": "0", "split": "test", "task": task,
            "classes": None if task in ("regression", "reading") else list(classes),
            "rows": _rows(folder, task, names, chosen, classes, told, rationales, picture, random),
            "methods": [
                {"label": label, "file": files[label], "kind": kinds[label], "is_control": label in controls}
                for label in own
            ],
            "skipped": [{"label": label, "reason": reason} for label, reason in (skipped or {}).items()],
            "metrics": _metrics(own, len(chosen), random) if metrics else {},
            "agreement": _agreement(own, len(chosen), random) if agreement and len(own) > 1 else [],
            "cost": _cost([label for label in own if label not in controls]) if cost else [],
            "notes": [],
        }  # fmt: skip
        _write(folder / "measured.json", document)
    return folder


def change(path: Path, **content: object) -> None:
    """Put other content under these names into a JSON file of a run."""
    _write(path, json.loads(path.read_text()) | content)


def _write(path: Path, document: object) -> None:
    path.write_text(json.dumps(document))


def _file(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", label.lower())[:40]


def _key(explainer: str, student: str, size: int, seed: int) -> str:
    return f"{_file(explainer)}-{_file(student)}-{size}-{seed}"


# -- the comparison ---------------------------------------------------------------------------------------------------


def _failed(methods, grid, seeds, count):
    cells = [(methods[-1], student, size, seed) for student, size in grid for seed in range(seeds)] if methods else []
    return cells[len(cells) - count :] if count else []


def _gains(values, student, size, measure, *, controls, spread):
    rows = []
    for label, own in values.items():
        pairs = [own[seed] - values["none"][seed] for seed in own if seed in values["none"]]
        has_gain = label != "none" and bool(pairs)
        gain = float(np.mean(pairs)) if has_gain else None
        is_tested = has_gain and len(pairs) > 1
        is_claimed = is_tested and abs(gain) > spread
        known = list(own.values())
        q25, median, q75 = np.quantile(known, [0.25, 0.5, 0.75]).tolist() if known else [None] * 3
        rows.append(
            {
                "explainer": label, "student": student, "size": size, "seeds": len(own), "measure": measure,
                "mean": float(np.mean(known)) if known else None, "median": median, "q25": q25, "q75": q75,
                "gain": gain, "low": gain - spread if is_tested else None, "high": gain + spread if is_tested else None,
                "level": 0.95 if is_tested else None, "claimed": is_claimed,
                "p": None if not is_tested else 0.03 if is_claimed else 0.3,
                "p_reason": "one seed says nothing about other seeds" if len(pairs) == 1 else "", "rank": None,
                "low_seeds": 0,
                "is_control": label in ("none", *controls), "lost_rows": 0, "test_rows": 2000,
            }
        )  # fmt: skip
    ranked = sorted((row for row in rows if row["mean"] is not None), key=lambda row: -row["mean"])
    for place, row in enumerate(ranked):
        row["rank"] = float(place + 1)
    return rows


def _contrasts(values, student, size, *, error):
    """The contrast of every two arms, as exact as `error` says; half of the variance is of seeds, half of rows."""
    found = []
    for first, second in combinations(values, 2):
        gaps = [values[first][seed] - values[second][seed] for seed in values[first] if seed in values[second]]
        if gaps:
            found.append(
                {
                    "student": student, "size": size, "first": first, "second": second, "seeds": len(gaps),
                    "difference": float(np.mean(gaps)), "se": error, "df": 30.0, "rows": 2000,
                    "seed_variance": error**2 / 2, "row_variance": error**2 / 2, "cell_variance": 0.0,
                }
            )  # fmt: skip
    return found


def _cells(values, student, size, measure, lost):
    done = [
        {
            "key": _key(label, student, size, seed), "explainer": label, "student": student, "size": size, "seed": seed,
            "status": "done", "measure": measure, "value": value, "dev": value, "epoch": 3, "trial": 0, "lost_rows": 0,
            "error": None,
        }
        for label, own in values.items() for seed, value in own.items()
    ]  # fmt: skip
    return done + [
        dict.fromkeys(_RESULTS)
        | {
            "key": _key(*cell), "explainer": cell[0], "student": student, "size": size, "seed": cell[3],
            "status": "failed", "measure": measure, "error": "the loss is not a number",
        }
        for cell in lost if cell[1:3] == (student, size)
    ]  # fmt: skip


def _write_results(path, lines, measure):
    columns = {name: [line[name] for line in lines] for name in _RESULTS}
    write_table(path, Table(columns, {"measure": measure}), types=_RESULTS)


def _mixes(grid, seeds, random):
    found = []
    for student, size in grid:
        for seed in range(seeds):
            weights = random.dirichlet(np.ones(8)).tolist()
            found.append(
                {
                    "explainer": "smat", "student": student, "size": size, "seed": seed, "active": 8,
                    "coefficients": weights, "entropy": 2.0, "kept": "learned", "log_temperature": 0.0,
                    "names": [f"{layer}.{head}" for layer in range(2) for head in range(4)], "notes": [],
                    "route": "double", "temperature": 1.0, "weights": weights,
                }
            )  # fmt: skip
    return found


# -- what was measured ------------------------------------------------------------------------------------------------


def _texts(task, rows, random):
    counts = len(task_kind(task).segments)
    return [tuple(" ".join(random.choice(_WORDS, random.integers(8, 16))) for _ in range(counts)) for _ in range(rows)]


def _words(text):
    return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]


def _patches(size, count=4):
    """The patches of a picture: (top, left, bottom, right)."""
    height, width = size
    tops, lefts = ([round(side * place / count) for place in range(count + 1)] for side in (height, width))
    return [(top, left, bottom, right) for top, bottom in pairwise(tops) for left, right in pairwise(lefts)]


def _units(task, texts, cut, size):
    """(token, segment, word, place) of each unit of a row."""
    if task == "image":
        return [(f"patch {number}", 0, number, place) for number, place in enumerate(_patches(size))]
    return [
        (text[start:end], segment, number, (start, end))
        for segment, text in enumerate(texts)
        for number, (start, end) in enumerate(cut(text))
    ]


def _scores(kind, count, random):
    if kind == "signed":
        return random.normal(0, 1, count)
    if kind == "binary":
        return (random.random(count) < 0.2).astype(float)
    found = random.random(count) ** 3
    return found / max(found.sum(), 1e-9) if kind == "distribution" else found


def _explanations(label, kind, task, ids, texts, classes, size, cut, random, *, teacher):
    units = [_units(task, one, cut, size) for one in texts]
    flat = [unit for row in units for unit in row]
    scores = [_scores(kind, len(row), random) for row in units]
    answer = "0.512" if task == "regression" else classes[-1]
    return Explanations(
        method=label.split("(")[0],
        kind=kind,
        options={},
        task=task,
        classes=None if task in ("regression", "reading") else tuple(classes),
        teacher=teacher,
        fingerprints={"teacher": "ab12"},
        ids=tuple(ids),
        texts=tuple(texts),
        bounds=np.cumsum([0, *map(len, units)]),
        tokens=tuple(unit[0] for unit in flat),
        segments=np.array([unit[1] for unit in flat], dtype=np.int64),
        word_index=np.array([unit[2] for unit in flat], dtype=np.int64),
        offsets=np.array([unit[3] for unit in flat], dtype=np.int64).reshape(-1, 4 if task == "image" else 2),
        scores=np.concatenate([*scores, np.zeros(0)]),
        targets=(answer,) * len(ids),
        predictions=(answer,) * len(ids),
        residuals=np.full(len(ids), np.nan),
    )


def _rows(folder, task, ids, texts, classes, told, rationales, size, random):
    rows = []
    for number, (name, own) in enumerate(zip(ids, texts, strict=True)):
        has_class = task not in ("regression", "reading")
        gold = classes[int(random.integers(len(classes)))] if has_class else f"{random.random():.3f}"
        said = classes[int(random.integers(len(classes)))] if has_class else f"{random.random():.3f}"
        row = {
            "id": name, "gold": gold, "prediction": said, "is_right": gold == said if has_class else None,
            "sureness": float(random.uniform(0.5, 1)) if has_class else None,
            "agreement": float(random.uniform(-0.3, 0.9)),
            "rationale": _rationale(task, own, size, random) if rationales else [],
            "picture": _picture(folder, number, size, random) if task == "image" else None,
        }  # fmt: skip
        rows.append(row | dict(told[number] if number < len(told) else {}))
    return rows


def _rationale(task, texts, size, random):
    if task == "image":
        patches = _patches(size)
        return [list(patches[place]) for place in sorted(random.choice(len(patches), 2, replace=False).tolist())]
    found = []
    for segment, text in enumerate(texts):
        places = _words(text)
        picked = sorted(random.choice(len(places), min(2, len(places)), replace=False).tolist()) if places else []
        found += [[segment, *places[place]] for place in picked]
    return found


def _picture(folder, number, size, random):
    name = f"measured/pictures/{number}.png"
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    height, width = size
    across, down = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    tone = np.full((height, width), float(random.integers(256)))
    Image.fromarray(np.stack([across, down, tone], -1).astype(np.uint8)).save(folder / name)
    return name


def _metrics(labels, count, random):
    rows, tests = [], []
    for metric, better in _METRICS.items():
        for label in labels:
            value = float(random.uniform(0.2, 0.8))
            rows.append(
                {
                    "method": label, "metric": metric, "value": value, "low": value - 0.05, "high": value + 0.05,
                    "rows": count, "skipped": 0, "better": better, "how": "units are replaced by [MASK]",
                }
            )  # fmt: skip
        own = {row["method"]: row["value"] for row in rows if row["metric"] == metric}
        tests += [
            {"method": one, "metric": metric, "other": other, "difference": own[one] - own[other],
             "low": own[one] - own[other] - 0.05, "high": own[one] - own[other] + 0.05, "p": 0.04, "rows": count}
            for number, one in enumerate(labels) for other in labels[number + 1 :]
        ]  # fmt: skip
    return {"rows": rows, "tests": tests, "heading": "truth", "notes": [], "rows_asked": count}


def _agreement(labels, count, random):
    found = []
    for measure in ("kendall", "spearman", "top_overlap(k=0.25)"):
        half = random.uniform(-0.2, 0.9, (len(labels), len(labels)))
        matrix = (half + half.T) / 2
        np.fill_diagonal(matrix, 1.0)
        found.append(
            {
                "methods": list(labels), "measure": measure, "matrix": matrix.tolist(),
                "sd": np.full(matrix.shape, 0.1).tolist(), "rows": np.full(matrix.shape, count).tolist(),
                "skipped": np.zeros(matrix.shape, dtype=int).tolist(), "by": "size", "level": "token",
                "groups": ["all"], "group_sd": [[None] * len(labels)] * len(labels), "notes": [],
                "caution": "Agreement is not correctness.",
            }
        )  # fmt: skip
    return found


def _cost(labels):
    return [
        {"method": label, "forward": 1.0 + 50 * place, "backward": float(place % 2), "seconds": 0.001 * (1 + place),
         "memory": 2.0, "rows": 16}
        for place, label in enumerate(labels)
    ]  # fmt: skip
