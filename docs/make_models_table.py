"""Tries every transformers architecture and writes the table in docs/models.md: `python docs/make_models_table.py`.

Each architecture is built tiny with random weights, loaded by `didact.load_teacher`, and compared with the plain model
on each row alone: logits from both kinds of embeddings, attention, the positions the head reads. Then one gradient
method, one attention method and occlusion run on it. `--check` compares with the table that is kept and changes
nothing; architectures can be named. The command fails if one is wrong or crashes.
"""

import argparse
import collections
import multiprocessing
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import transformers
from tiny_architectures import NotBuilt, architectures, build
from torch import Tensor

import didact
from didact.core.model import Model
from didact.core.row import Row
from didact.errors import DidactError

TARGET: Final = Path(__file__).with_name("models.md")
BEGIN: Final = "<!-- models table: made by docs/make_models_table.py -->"
END: Final = "<!-- end of models table -->"

RIGHT, NO_ATTENTION, REFUSED, NOT_BUILT = "right", "right, no attention", "refused", "not built"
WRONG, CRASH = "WRONG", "CRASH"
VERDICTS: Final = (RIGHT, NO_ATTENTION, REFUSED, NOT_BUILT, WRONG, CRASH)

TEXTS: Final = ("a good film", "the plot is not very good", "bad")
TOLERANCE: Final = 1e-5  # of logits of order 1, in float32
SHARE: Final = 0.01  # of the gradient at the last hidden states
SECONDS: Final = 180.0  # for one architecture


@dataclass(frozen=True)
class Outcome:
    """What came out for one architecture. `logits` is the largest difference from the plain model, None if not run."""

    name: str
    verdict: str
    reason: str = ""
    logits: float | None = None
    attention: float | None = None


class WrongError(Exception):
    """didact and the plain model differ."""


def examine(name: str) -> Outcome:
    """Build one architecture, load it, compare it, and run three methods on it."""
    try:
        model, processor = build(name)
    except NotBuilt as error:
        return Outcome(name, NOT_BUILT, str(error))
    except Exception as error:
        return Outcome(name, NOT_BUILT, described(error))
    rows = example_rows(name, processor)
    outcome = Outcome(name, RIGHT)
    try:
        teacher = didact.load_teacher((model, processor))
        assert isinstance(teacher, Model)
        outcome = replace(outcome, logits=compared_logits(teacher, model, processor, rows))
        try:
            difference = compared_attention(teacher, model, processor, rows)
            compared_pooling(teacher, model, processor, rows)
            outcome = replace(outcome, attention=difference)
        except DidactError as error:
            outcome = replace(outcome, verdict=NO_ATTENTION, reason=shortened(error))
        compared_gradients(teacher, model, processor, rows)
        methods(teacher, rows, has_attention=outcome.verdict == RIGHT)
    except DidactError as error:
        return replace(outcome, verdict=REFUSED, reason=shortened(error))
    except WrongError as error:
        return replace(outcome, verdict=WRONG, reason=str(error))
    except Exception as error:
        return replace(outcome, verdict=CRASH, reason=described(error))
    return outcome


def example_rows(name: str, processor: Any) -> list[Row]:
    """Ragged texts, or images of the size the processor asks for."""
    if not name.endswith(" (image)"):
        return [Row(f"text{index}", (text,)) for index, text in enumerate(TEXTS)]
    shape = (len(TEXTS), processor.size["height"], processor.size["width"], 3)
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    return [Row(f"image{index}", image=image) for index, image in enumerate(images)]


def plain_inputs(processor: Any, row: Row) -> dict[str, Tensor]:
    """One row alone as transformers' own preprocessing gives it."""
    if row.image is not None:
        pixels = processor(images=[row.image], return_tensors="pt", input_data_format="channels_last")["pixel_values"]
        return {"pixel_values": pixels}
    return dict(processor(row.texts[0], return_tensors="pt", return_token_type_ids=False))


def compared_logits(teacher: Model, model: Any, processor: Any, rows: Sequence[Row]) -> float:
    """The largest difference of a padded batch, from word embeddings and from the first layer's inputs."""
    with torch.no_grad():
        plain = torch.cat([model(**plain_inputs(processor, row)).logits for row in rows])
        if not bool(plain.isfinite().all()):
            raise WrongError("the plain model's logits are not finite: change its tiny configuration")
        batch = teacher.encode(rows)
        worst = 0.0
        for at in ("word", "embedding"):
            logits = teacher.run(teacher.embed(batch, at=at), batch, at=at).logits
            worst = max(worst, checked(f"logits from at={at!r}", logits, plain))
    return worst


def compared_attention(teacher: Model, model: Any, processor: Any, rows: Sequence[Row]) -> float | None:
    """The largest difference of attention probabilities; None where the plain model returns none."""
    batch = teacher.encode(rows)
    with torch.no_grad():
        trace = teacher(batch, listen=("full", "mean", "reading"))
    assert trace.full is not None
    before = model.config._attn_implementation
    try:
        model.set_attn_implementation("eager")
        with torch.no_grad():
            given = [model(**plain_inputs(processor, row), output_attentions=True).attentions for row in rows]
    except Exception:  # some heads take no such argument, some layers have no attention
        return None
    finally:
        model.set_attn_implementation(before)
    worst = 0.0
    for index, layers in enumerate(given):
        if not layers or any(layer is None or layer.ndim != 4 for layer in layers):
            return None
        plain = torch.stack(list(layers), 1)[0]
        length = plain.shape[-1]
        found = trace.full[index, :, :, :length, :length].softmax(-1)
        if found.shape != plain.shape:
            raise WrongError(f"attention has shape {tuple(found.shape)}, the plain model's {tuple(plain.shape)}")
        worst = max(worst, checked("attention", found, plain))
    return worst


def compared_pooling(teacher: Model, model: Any, processor: Any, rows: Sequence[Row]) -> None:
    """The positions the teacher says it reads are those that the logits have a gradient at."""
    claimed = claimed_pooling(teacher, rows)
    for index, row in enumerate(rows):
        output = model(**plain_inputs(processor, row), output_hidden_states=True)
        last = output.hidden_states[-1] if output.get("hidden_states") else None
        if last is None or not last.requires_grad or last.ndim != 3:
            return
        generator = torch.Generator().manual_seed(0)
        weights = torch.randn(output.logits.shape, generator=generator)
        (gradient,) = torch.autograd.grad((output.logits * weights).sum(), last, allow_unused=True)
        if gradient is None:
            return
        measured = gradient[0].norm(dim=-1)
        measured = measured / measured.sum()
        difference = float((claimed[index][: len(measured)] - measured).abs().max())
        if not difference <= SHARE:
            raise WrongError(
                f"the head reads other positions than {teacher.reading!r}: {difference:.2f} of the gradient"
            )


def claimed_pooling(teacher: Model, rows: Sequence[Row]) -> Tensor:
    batch = teacher.encode(rows)
    mask = batch.mask.float()
    if teacher.reading == "mean":
        return mask / mask.sum(-1, keepdim=True)
    at = torch.zeros(len(rows), dtype=torch.long) if teacher.reading == "first" else batch.lengths - 1
    return torch.nn.functional.one_hot(at, mask.shape[1]).float()


def compared_gradients(teacher: Model, model: Any, processor: Any, rows: Sequence[Row]) -> None:
    """`gradient_norm` against the gradient at the plain model's word embeddings."""
    explanations = didact.explain(teacher, rows, "gradient_norm", special=True)
    embeddings = model.get_input_embeddings()
    if not isinstance(embeddings, torch.nn.Embedding):
        embeddings = None  # patches: positions differ, and `compared_logits` has run from them
    for index, row in enumerate(rows):
        scores = torch.from_numpy(explanations[index].scores)
        if not bool(scores.isfinite().all()):
            raise WrongError("gradient_norm gives no numbers")
        if embeddings is None:
            continue
        outputs: list[Tensor] = []
        hook = embeddings.register_forward_hook(lambda _, __, output, kept=outputs: kept.append(output))
        try:
            logits = model(**plain_inputs(processor, row)).logits[0]
        finally:
            hook.remove()
        (gradient,) = torch.autograd.grad(logits.max(), outputs[0])
        checked("gradient norms", scores, gradient[0].norm(dim=-1))


def methods(teacher: Model, rows: Sequence[Row], *, has_attention: bool) -> None:
    """Occlusion and the attention methods give finite scores, and not zeros alone."""
    for name in ("occlusion", *(("attention_rollout", "attention_all") if has_attention else ())):
        scores = didact.explain(teacher, rows, name).scores
        if not np.isfinite(scores).all() or not np.any(scores):
            raise WrongError(f"{name} gives {'zeros' if np.isfinite(scores).all() else 'no numbers'}")


def checked(what: str, found: Tensor, plain: Tensor) -> float:
    difference = float((found - plain).abs().max())
    if not difference <= TOLERANCE * max(1.0, float(plain.abs().max())):
        raise WrongError(f"{what} differ by {difference:.1e}")
    return difference


def shortened(error: Exception) -> str:
    """The sentence of an error that gives the reason."""
    return " ".join(str(error).split())


def described(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]


# -- all of them ------------------------------------------------------------------------------------------------------


def apart(name: str) -> Outcome:
    """`examine` in a process of its own, so that neither a crash nor a model that never ends stops the others."""
    context = multiprocessing.get_context("fork")  # transformers takes seconds to import
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_sent, args=(name, sender))
    process.start()
    sender.close()
    try:
        if receiver.poll(SECONDS):
            return receiver.recv()
        process.kill()
        return Outcome(name, CRASH, f"no answer within {SECONDS:.0f} s")
    except EOFError:
        process.join()
        return Outcome(name, CRASH, f"its process ended with code {process.exitcode}")
    finally:
        process.join()


def _sent(name: str, sender: Any) -> None:
    sender.send(examine(name))
    sender.close()


def table(outcomes: Iterable[Outcome]) -> str:
    """The table in Markdown, one line per architecture."""
    lines = ["| architecture | outcome | why |", "|---|---|---|"]
    for outcome in outcomes:
        reason = outcome.reason.replace("|", "\\|")
        lines.append(f"| {outcome.name} | {outcome.verdict} | {reason} |")
    return "\n".join(lines)


def kept_table(page: str) -> str:
    return page.partition(BEGIN)[2].partition(END)[0].strip()


def with_table(page: str, lines: str) -> str:
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{lines}\n\n{END}{after}"


def main(arguments: Sequence[str] | None = None, run: Callable[[str], Outcome] = apart) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="architectures (default: all of them)")
    parser.add_argument("--check", action="store_true", help="compare with docs/models.md instead of writing it")
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    torch.set_num_threads(1)
    outcomes = []
    for name in asked.names or architectures():
        outcomes.append(run(name))
        sys.stderr.write(f"{outcomes[-1]}\n")
    counts = collections.Counter(outcome.verdict for outcome in outcomes)
    sys.stderr.write(", ".join(f"{verdict}: {counts[verdict]}" for verdict in VERDICTS) + "\n")
    page = TARGET.read_text(encoding="utf-8")
    if not asked.names and not asked.check:
        TARGET.write_text(with_table(page, table(outcomes)), encoding="utf-8")
    if asked.check:
        changed = [line for line in table(outcomes).splitlines() if line not in kept_table(page).splitlines()]
        sys.stderr.writelines(f"Not in {TARGET.name}: {line}\n" for line in changed)
        return int(bool(changed))
    return int(counts[WRONG] + counts[CRASH] > 0)


if __name__ == "__main__":
    sys.exit(main())
