"""What explaining costs over the bare passes a method needs, and beside captum. Ratios measured in turn, in one run.

- passes: `didact.explain`, from texts to records, over the bare batched passes of the model itself (as transformers
  runs it), for as many altered rows as the method names, in the same batch size; MiniLM on SST sentences if both are
  there, and a small teacher on planted/sentiment;
- captum: the same scores row by row with captum's defaults, and with its best `perturbations_per_eval` or
  `internal_batch_size`;
- error: samples and time that Kernel SHAP needs for the mean absolute error (to exact Shapley values, rows of 10 to 12
  units) that captum's has with 1,000 samples at its best `perturbations_per_eval`;
- memory: peak memory of LIME and integrated gradients with ten times the samples or steps.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from captum.attr import IntegratedGradients, KernelShap, Lime, Occlusion

import didact
import didact.errors
from didact.core.baseline import baseline_of
from didact.core.batch import Batch
from didact.core.batching import longest_first, text_lengths
from didact.core.model import Model
from didact.core.row import Row
from didact.models.build import build_model

BATCH, SAMPLES, STEPS = 64, 200, 50


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_turn(*works: Callable[[], object], rounds: int) -> list[float]:
    """Median seconds of each, measured in turn so that a busy machine slows all."""
    for work in works:
        work()
    times = [[seconds(work) for work in works] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


@dataclass
class Setting:
    name: str
    model: Model
    pool: list[Row]
    bare: Callable[[Batch, bool], object]  # a pass of the model itself; with a backward if asked
    count: int

    @property
    def rows(self) -> list[Row]:
        return self.pool[: self.count]


def settings() -> list[Setting]:
    found = []
    folder = Path(os.environ.get("DIDACT_DATA") or Path(__file__).parents[2] / "shared" / "data")
    try:
        data = didact.load_data("sst", data_dir=str(folder))
        found.append(_minilm(data))
    except didact.errors.DidactError as error:
        print(f"minilm on sst: skipped. {error}")
    planted = didact.load_data("planted/sentiment")
    teacher = didact.train_teacher(planted, "native", epochs=4, patience=4)
    found.append(Setting("planted", teacher, list(planted["test"][:64]), _bare_native(teacher), 64))
    return found


def _minilm(data: didact.core.dataset.Dataset) -> Setting:
    torch.manual_seed(0)
    model = build_model("minilm", data).eval()
    network = model.model
    matrix = network.get_input_embeddings()

    def bare(batch: Batch, backward: bool) -> None:
        given = {"attention_mask": batch.mask.long(), "token_type_ids": batch.types}
        if not backward:
            with torch.inference_mode():
                network(input_ids=batch.tokens, **given)
            return
        point = matrix(batch.tokens).detach().requires_grad_()
        torch.autograd.grad(network(inputs_embeds=point, **given).logits[:, 0].sum(), point)

    for parameter in network.parameters():
        parameter.requires_grad_(False)
    return Setting("minilm on sst", model, list(data["test"][:200]), bare, 12)


def _bare_native(model: Model) -> Callable[[Batch, bool], None]:
    for parameter in model.parameters():
        parameter.requires_grad_(False)

    def bare(batch: Batch, backward: bool) -> None:
        if not backward:
            with torch.inference_mode():
                model(batch)
            return
        point = model.embed(batch).detach().requires_grad_()
        torch.autograd.grad(model.run(point, batch).logits[:, 0].sum(), point)

    return bare


METHODS = {
    "occlusion": {},
    "lime": {"samples": SAMPLES},
    "kernel_shap": {"samples": SAMPLES},
    "integrated_gradients": {"steps": STEPS},
}


def passes(one: Setting, *, rounds: int) -> None:
    for method, options in METHODS.items():
        backward = method == "integrated_gradients"
        bare = _bare_passes(one, method, backward)

        def ours(method: str = method, options: dict = options) -> None:
            didact.explain(one.model, one.rows, method, batch_size=BATCH, **options)

        mine, plain = in_turn(ours, bare, rounds=rounds)
        print(f"{one.name:>14}: {method} / its bare passes: {mine / plain:.2f}  ({mine:.2f} s, {len(one.rows)} rows)")


def _bare_passes(one: Setting, method: str, backward: bool) -> Callable[[], None]:
    """The passes a method needs: every altered row once, rows of similar length together."""
    lengths = one.model.encode(one.rows).units.sum(-1).tolist()
    times = {
        "occlusion": [length + 1 for length in lengths],
        "lime": [SAMPLES] * len(lengths),
        "kernel_shap": [min(SAMPLES, 2**length) for length in lengths],
        "integrated_gradients": [STEPS] * len(lengths),
    }[method]
    order = [index for index in longest_first(text_lengths(one.rows)) for _ in range(times[index])]
    batch = one.model.encode(one.rows)
    chunks = [batch.select(order[start : start + BATCH]) for start in range(0, len(order), BATCH)]

    def bare() -> None:
        for chunk in chunks:
            one.bare(chunk, backward)

    return bare


def captum_of(one: Setting, row: Row, method: str, **options: object) -> np.ndarray:
    """captum on one row, from its embeddings up: tokens are the features, special tokens stay."""
    model = one.model
    batch = model.encode([row])
    with torch.no_grad():
        inputs, empty = model.embed(batch), baseline_of(model, batch, baseline="zero")
        label = int(model(batch).logits.argmax())
    mask = torch.arange(inputs.shape[1])[None, :, None].expand_as(inputs)

    def forward(embeddings: torch.Tensor) -> torch.Tensor:
        part = batch.select(torch.zeros(len(embeddings), dtype=torch.long))
        return model.run(embeddings, part).logits[:, label]

    if method == "occlusion":
        window = (1, inputs.shape[-1])
        found = Occlusion(forward).attribute(inputs, window, strides=window, baselines=empty, **options)
    elif method == "integrated_gradients":
        found = IntegratedGradients(forward).attribute(inputs, empty, n_steps=STEPS, **options)
        return found.sum(-1)[0][batch.units[0]].numpy()
    else:
        kind = {"lime": Lime, "kernel_shap": KernelShap}[method]
        options.setdefault("n_samples", SAMPLES)
        # Special tokens and padding are no features: they share the number of the first unit nowhere.
        units = batch.units[0].nonzero()[:, 0]
        inside, outside = inputs[:, units], inputs.clone()
        mask = torch.arange(len(units))[None, :, None].expand_as(inside)

        def placed(part: torch.Tensor) -> torch.Tensor:
            whole = outside.repeat(len(part), 1, 1)
            whole[:, units] = part
            return forward(whole)

        found = kind(placed).attribute(inside, empty[:, units], feature_mask=mask, **options)
        return found[0, :, 0].detach().numpy()
    return found[0, :, 0][batch.units[0]].numpy()


def captum(one: Setting, *, rows: int) -> None:
    for method, options in METHODS.items():
        some = one.rows if method == "occlusion" else one.rows[:rows]
        option = "internal_batch_size" if method == "integrated_gradients" else "perturbations_per_eval"

        def theirs(method: str = method, some: list[Row] = some, **given: object) -> float:
            return seconds(lambda: [captum_of(one, row, method, **given) for row in some])

        ours = statistics.median(_ours(one, some, method, options) for _ in range(3))
        default = theirs()
        tried = {size: theirs(**{option: size}) for size in (8, 32, 64, 200)}
        best = min(tried, key=tried.__getitem__)
        print(
            f"{one.name:>14}: captum's {method} row by row / ours: {default / ours:.1f}; "
            f"at its best {option}={best}: {min(tried[best], default) / ours:.1f}"
        )


def _ours(one: Setting, rows: list[Row], method: str, options: dict) -> float:
    return seconds(lambda: didact.explain(one.model, rows, method, batch_size=BATCH, **options))


def error(one: Setting) -> None:
    """Mean absolute error to exact Shapley values against time, rows of 10 to 12 units."""
    rows = [row for row in one.pool if 10 <= int(one.model.encode([row]).units.sum()) <= 12][:8]
    exact = didact.explain(one.model, rows, "kernel_shap", samples=2**12, batch_size=256)
    truth = [one.scores for one in exact]

    def gap(found: list[np.ndarray]) -> float:
        return float(np.mean([np.abs(a - b).mean() for a, b in zip(found, truth, strict=True)]))

    def theirs(size: int) -> list[np.ndarray]:
        torch.manual_seed(0)
        return [captum_of(one, row, "kernel_shap", n_samples=1000, perturbations_per_eval=size) for row in rows]

    best = min((32, 64, 200, 1000), key=lambda size: seconds(lambda: theirs(size)))
    wanted = gap(theirs(best))
    for samples in (30, 50, 75, 100, 150, 200, 300, 500, 1000):
        found = [
            gap([one.scores for one in didact.explain(one_model, rows, "kernel_shap", samples=samples, seed=seed)])
            for seed in range(3)
            for one_model in [one.model]
        ]
        if np.mean(found) <= wanted:
            break
    mine, captums = in_turn(
        lambda: didact.explain(one.model, rows, "kernel_shap", samples=samples), lambda: theirs(best), rounds=3
    )
    print(
        f"{one.name:>14}: kernel_shap with {samples} samples has an error of {np.mean(found):.2e}, captum's with 1,000 "
        f"{wanted:.2e}; time ours / captum's (perturbations_per_eval={best}): {mine / captums:.3f}  ({len(rows)} rows)"
    )


def memory() -> None:
    """Peak memory beyond the loaded model, in a process of its own for each."""
    for method, option, few in (("lime", "samples", 200), ("integrated_gradients", "steps", 20)):
        grown = [
            int(subprocess.check_output([sys.executable, __file__, method, option, str(n)])) for n in (few, 10 * few)
        ]
        print(
            f"peak memory of {method}: {few} {option} {grown[0] / 1024:.0f} MB, {10 * few} {option} "
            f"{grown[1] / 1024:.0f} MB; ratio {grown[1] / grown[0]:.2f}"
        )


def measured(method: str, option: str, value: int) -> None:
    """Print the peak memory, in KB, that one call adds."""
    data = didact.load_data("planted/sentiment", teach=64, explain=1, train=1, dev=1, test=8)
    torch.manual_seed(0)
    model = build_model("native(layers=4, width=256, heads=8)", data).eval()
    rows = [Row(str(index), (" ".join(row.texts[0] for row in data["teach"][:6]),)) for index in range(8)]
    didact.explain(model, rows[:1], method, **{option: 4 if option == "samples" else 2}, batch_size=1)
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    didact.explain(model, rows, method, **{option: value}, batch_size=32)
    print(_status("VmHWM") - before)


def _status(name: str) -> int:
    """A line of the process's status, in KB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    if len(sys.argv) == 4:
        measured(sys.argv[1], sys.argv[2], int(sys.argv[3]))
        sys.exit()
    for setting in settings():
        passes(setting, rounds=3)
        captum(setting, rows=4)
        error(setting)
    memory()
