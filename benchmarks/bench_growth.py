"""How what a comparison costs grows, and what a large one would take.

    python benchmarks/bench_growth.py [growth] [constants] [plan]

- growth: seconds to explain a row of 32 to 512 pieces (a BERT of MiniLM's size with random weights); seconds of a cell
  with 125 to 1,000 rows, and a step of SMaT with 4 to 64 heads (the demo's student): each a ratio to the first;
- constants: what does not depend on the machine. Pieces of an IMDb review as BERT reads it, floating-point operations
  of one pass of BERT-base, forward and backward, counted by torch, and passes of each method for a row. They are held
  against the clock: methods that cost the same operations should take the same time;
- plan: a comparison of eight methods on all of IMDb with BERT-base, on eight GPUs, from these constants. Its only
  assumption is how many operations a GPU does in a second; no GPU was asked.

Without the real data (DIDACT_DATA), reviews are taken to have as many pieces as were measured once.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

import didact
from didact.core.row import Row
from didact.evaluation.cost import cost_of
from didact.files.store import Store
from didact.models.hub import locate_base
from didact.models.huggingface import HuggingFaceModel

LENGTHS, SIZES, HEADS = (32, 64, 128, 256, 512), (125, 250, 500, 1000), (1, 4, 16)
METHODS = ("attention_all", "gradient_norm", "integrated_gradients(steps=20)", "lime(samples=20)")
# The worked plan: IMDb as didact cuts it, students of BERT-base.
ROWS = {"train": 8_750, "dev": 2_500, "test": 13_750}
STUDENT_SIZES, SEEDS, EPOCHS, GPUS = (500, 2_000, 8_000), 8, 4, 8
ASKED = (
    "attention_all", "attention_rollout", "gradient_norm", "gradient_input", "integrated_gradients(steps=50)",
    "lime(samples=1000)", "kernel_shap(samples=1000)",
)  # fmt: skip
CONTROLS = {
    "none": 1,
    "random": 1,
    "trivial": 1,
    "smat": 1,
    "flattened": 1,
    "matched": 1,
    "attention_all(sharpened)": 4,
}
LEARNING = 3.4  # plain steps that a step of SMaT takes (docs/smat.md)
SUSTAINED = {"single precision, 10 TFLOP/s": 10e12, "mixed precision, 60 TFLOP/s": 60e12}  # the one assumption
PIECES = 275.0  # of a review, where none can be read


def seconds(work: Callable[[], object]) -> float:
    work()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def bert(layers: int, width: int, heads: int) -> BertForSequenceClassification:
    torch.manual_seed(0)
    config = BertConfig(
        num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, intermediate_size=4 * width
    )
    config._attn_implementation = "eager"
    return BertForSequenceClassification(config).eval()


def tokenizer() -> object:
    return AutoTokenizer.from_pretrained(locate_base("minilm")[0])  # BERT's own word pieces


def growth() -> None:
    teacher = HuggingFaceModel(bert(6, 384, 12), tokenizer())
    print("time to explain a row, by its pieces, over that of 32 pieces")
    for method in METHODS:
        found = []
        for length in LENGTHS:
            rows = [Row(f"r{number}", ("film " * (length - 2),)) for number in range(2)]
            found.append(seconds(lambda rows=rows, by=method: didact.explain(teacher, rows, by, batch_size=16)) / 2)
        told = ", ".join(f"{length}: {one / found[0]:.1f}x" for length, one in zip(LENGTHS, found, strict=True))
        print(f"  {method:32s} {told}   (32 pieces: {found[0] * 1e3:.1f} ms)", flush=True)
    data = didact.load_data("planted/sentiment(teach=2000, explain=10, train=1000, dev=200, test=1000)")
    small = didact.train_teacher(data, "native(layers=2, width=64, heads=4)", epochs=1, progress=False)
    paces = pace(small, data, list(SIZES))
    first = paces["none", SIZES[0]]
    told = ", ".join(f"{rows}: {paces['none', rows] / first:.2f}x" for rows in SIZES)
    print(f"time of a cell, by the rows of its student: {told}   ({SIZES[0]}: {first:.2f} s; dev 200, test 1,000 rows)")
    told = ", ".join(f"{rows}: {paces['gradient_norm', rows] / paces['none', rows]:.2f}x" for rows in SIZES)
    print(f"with explanations (strategy attention) over without: {told}")
    steps = {}
    for heads in HEADS:
        teacher = didact.train_teacher(data, f"native(layers=2, width=64, heads={heads})", epochs=1, progress=False)
        found = pace(teacher, data, [SIZES[1]], ["smat"])
        steps[2 * heads] = found["smat(cotrained)", SIZES[1]] / found["none", SIZES[1]]
    told = ", ".join(f"{parts}: {one:.2f}x" for parts, one in steps.items())
    print(f"learning SMaT over teaching a student, by the heads it weighs: {told}", flush=True)


def pace(
    teacher: object, data: object, sizes: list[int], explainers: list[str] | None = None
) -> dict[tuple[str, int], float]:
    """Seconds of runs with the demo's training, by explainer and size."""
    with tempfile.TemporaryDirectory() as place:
        didact.compare(
            teacher, data, explainers or ["gradient_norm"], ["same/attention"], train_sizes=sizes, seeds=1, workers=0,
            training={"epochs": 10}, skip_controls=["trivial", "human", "flattened", "matched"], eval_rows=0,
            out=place,
        )  # fmt: skip
        store = Store(Path(place) / "cells")
        records = [store.load(path.stem).payload for path in (Path(place) / "cells").glob("*.json")]
        return {(record["cell"]["explainer"], record["cell"]["size"]): record["seconds"] for record in records}


def constants() -> tuple[float, float, dict[str, tuple[float, float]]]:
    """Operations of one pass forward and backward for a review, and by method its passes."""
    pieces = PIECES
    try:
        reviews = [row.texts[0] for row in didact.load_data("imdb")["test"].rows[:2000]]
        found = tokenizer()(reviews, truncation=True, max_length=512)["input_ids"]
        pieces = sum(map(len, found)) / len(found)
        print(f"pieces of an IMDb review, cut at 512: {pieces:.0f} (mean of {len(found):,})")
    except didact.errors.DidactError:
        print(f"pieces of an IMDb review, cut at 512: {pieces:.0f}, as measured elsewhere: the data are not here")
    model, tokens = bert(12, 768, 12), torch.randint(1000, 2000, (1, round(pieces)))
    with FlopCounterMode(display=False) as counted:
        logits = model(tokens).logits
    forward = counted.get_total_flops()
    with FlopCounterMode(display=False) as counted:
        logits.sum().backward()
    backward = counted.get_total_flops()
    print(f"BERT-base, one review: forward {forward / 1e9:.1f} GFLOP, backward {backward / 1e9:.1f} GFLOP")
    bare = seconds(lambda: model(tokens))
    print(f"  here {bare:.2f} s forward on {torch.get_num_threads()} thread: {forward / bare / 1e9:.0f} GFLOP/s")
    data = didact.load_data("planted/sentiment(teach=200, explain=10, train=10, dev=10, test=8)")
    tiny = didact.train_teacher(data, "native(layers=1, width=16, heads=2)", epochs=1, progress=False)
    rows = [Row(f"r{number}", (" ".join(["film", "actor", "screen", "gentle"] * 50),)) for number in range(2)]
    passes = {one.method: (one.forward, one.backward) for one in cost_of(tiny, rows, ASKED)}
    passes |= {"smat": passes["attention_all"]}
    for name, (forth, back) in passes.items():
        print(f"  {name:28s} {forth:7.1f} forward {back:5.1f} backward for a row")
    return float(forward), float(backward), passes


def plan() -> None:
    forward, backward, passes = constants()
    both = forward + backward
    work = {"the teacher's answers": sum(ROWS.values()) * forward}
    for name, (forth, back) in passes.items():
        work[f"explaining: {name}"] = ROWS["train"] * (forth * forward + back * backward)
    trials = {**dict.fromkeys(ASKED, 1), **CONTROLS}
    cells = 0
    for rows in STUDENT_SIZES:
        taught = EPOCHS * (rows * both + ROWS["dev"] * forward) + ROWS["test"] * forward
        learned = EPOCHS * (LEARNING * rows * both + ROWS["dev"] * forward) + ROWS["test"] * forward
        work[f"students of {rows:,} rows"] = SEEDS * (sum(trials.values()) * taught + learned)
        cells += SEEDS * (len(trials) + 1)
    print(f"\n{cells} cells of BERT-base on IMDb, {SEEDS} seeds, {EPOCHS} epochs; in PFLOP, and hours of {GPUS} GPUs")
    for name, operations in {**work, "in all": sum(work.values())}.items():
        hours = "   ".join(f"{operations / speed / 3600 / GPUS:7.2f} h" for speed in SUSTAINED.values())
        print(f"  {name:40s} {operations / 1e15:10,.0f}   {hours}")
    print(f"  hours at: {'; '.join(SUSTAINED)} of each GPU, which is assumed and not measured")


if __name__ == "__main__":
    asked = sys.argv[1:] or ["growth", "plan"]
    for name in asked:
        {"growth": growth, "constants": constants, "plan": plan}[name]()
