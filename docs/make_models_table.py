"""Tries every transformers architecture and writes the table in docs/models.md: `python docs/make_models_table.py`.

Each architecture is built tiny with random weights, loaded by `didact.load_teacher`, and compared with the plain model
on each row alone: logits from both kinds of embeddings, attention, the positions the head reads. Then one gradient
method, one attention method and occlusion run on it. `--check` compares with the table that is kept and changes
nothing; architectures can be named. The command fails if one is wrong or crashes.
"""

import argparse
import collections
import multiprocessing
import re
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
from didact.models.attention_function import attention_implementation

TARGET: Final = Path(__file__).with_name("models.md")
BEGIN: Final = "<!-- models table: made by docs/make_models_table.py -->"
END: Final = "<!-- end of models table -->"

RIGHT, NO_ATTENTION, REFUSED, NOT_BUILT = "right", "right, no attention", "refused", "not built"
WRONG, CRASH = "WRONG", "CRASH"
VERDICTS: Final = (RIGHT, NO_ATTENTION, REFUSED, NOT_BUILT, WRONG, CRASH)

# The second is longer than a chunk of 64 tokens, which some architectures work on.
TEXTS: Final = ("a good film", "the plot is not very good, but the music was great, and the cast is fine!", "bad")
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
        explained(teacher, rows, ["occlusion"])
        if outcome.verdict == RIGHT:
            explained(teacher, rows, ["attention_rollout"])
            try:
                explained(teacher, rows, ["attention_all"])
            except DidactError as error:
                outcome = replace(outcome, reason=f"attention_all refused: {shortened(error)}")
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
        if not bool(plain.isfinite().all()) or bool((plain[0] == plain[1]).all()):
            raise WrongError("the plain model's logits say nothing: change its tiny configuration")
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
        trace = teacher(batch, listen=("full", "reading"))
    assert trace.full is not None
    try:
        with torch.no_grad(), attention_implementation(model, "eager"):
            given = [model(**plain_inputs(processor, row), output_attentions=True).attentions for row in rows]
    except Exception:  # some heads take no such argument, some layers have no attention
        return None
    worst = 0.0
    for index, layers in enumerate(given):
        if not layers or any(layer is None or layer.ndim != 4 for layer in layers):
            return None
        plain = torch.stack(list(layers), 1)[0]
        plain = plain / plain.sum(-1, keepdim=True)  # what attention sinks take is left out
        length = plain.shape[-1]
        found = trace.full[index, :, :, :length, :length].softmax(-1)
        if found.shape != plain.shape:
            raise WrongError(f"attention has shape {tuple(found.shape)}, the plain model's {tuple(plain.shape)}")
        worst = max(worst, checked("attention", found, plain))
    return worst


def compared_pooling(teacher: Model, model: Any, processor: Any, rows: Sequence[Row]) -> None:
    """The positions the teacher says it pools are those that the logits have a gradient at."""
    claimed = teacher.pooling_weights(teacher.encode(rows))
    for index, row in enumerate(rows):
        states: list[Tensor] = []
        hook = model.base_model.register_forward_hook(lambda _, __, output, kept=states: kept.append(output[0]))
        try:
            output = model(**plain_inputs(processor, row), output_hidden_states=True)
        finally:
            hook.remove()
        measured = gradient_shares(output.logits[0], [*states, *(output.get("hidden_states") or ())[-1:]])
        if measured is None:
            continue
        difference = float((claimed[index][: len(measured)] - measured).abs().max())
        if not difference <= SHARE:
            raise WrongError(
                f"the head pools other positions than {teacher.reading!r}: {difference:.2f} of the gradient"
            )


def gradient_shares(logits: Tensor, states: Sequence[Tensor]) -> Tensor | None:
    """The norm of the Jacobian at each position of the first states that the logits depend on, 1 in sum."""
    for state in states:
        if state.ndim != 3 or not state.requires_grad:
            continue
        gradients = [torch.autograd.grad(logit, state, retain_graph=True, allow_unused=True)[0] for logit in logits]
        if all(gradient is not None for gradient in gradients):
            norms = torch.cat(gradients).square().sum((0, -1)).sqrt()
            return norms / norms.sum() if bool(norms.any()) else None
    return None


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
        checked("gradient norms", scores, gradient.reshape(len(scores), -1).norm(dim=-1))  # XLNet has tokens first


def explained(teacher: Model, rows: Sequence[Row], methods: Sequence[str]) -> None:
    """Each method gives finite scores, and not zeros alone."""
    for name in methods:
        scores = didact.explain(teacher, rows, name).scores
        if not np.isfinite(scores).all() or not np.any(scores):
            raise WrongError(f"{name} gives {'zeros' if np.isfinite(scores).all() else 'no numbers'}")


def checked(what: str, found: Tensor, plain: Tensor) -> float:
    difference = float((found - plain).abs().max())
    if not difference <= TOLERANCE * max(1.0, float(plain.abs().max())):
        raise WrongError(f"{what} differ by {difference:.1e}")
    return difference


def shortened(error: Exception) -> str:
    """The reason in an error, without the model's name, measured numbers and advice: the same on every machine."""
    text = " ".join(str(error).split())
    text = re.sub(r"^.*?(?:white box(?:es)?|cannot be used): ", "", text)
    text = re.split(r"\. (?:Wrap|Choose|Load) ", text)[0].rstrip(".")
    text = re.sub(r" by [\d.e+-]+(?: \(values up to [\d.e+-]+\))?", "", text)
    text = re.sub(r"(?:Models? (?:of type )?)?'?\w+For(?:Sequence|Image)Classification\w*'?", "the model", text)
    return text[:1].lower() + text[1:]


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
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    torch.set_num_threads(1)
    sender.send(examine(name))
    sender.close()


def table(outcomes: Sequence[Outcome]) -> str:
    """The table in Markdown: architectures that share outcome and reason share a row."""
    groups: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.verdict, outcome.reason), []).append(outcome.name)
    order = sorted(groups, key=lambda group: (VERDICTS.index(group[0]), -len(groups[group]), group))
    lines = [
        f"{len(outcomes)} architectures of transformers {transformers.__version__}.",
        "",
        "| outcome | architectures | reason |",
        "|---|---|---|",
    ]
    for verdict, reason in order:
        names = groups[verdict, reason]
        lines.append(f"| {verdict} ({len(names)}) | {', '.join(names)} | {reason.replace('|', ' ')} |")
    return "\n".join(lines)


def kept_outcomes(page: str) -> dict[str, tuple[str, str]]:
    """Outcome and reason of each architecture in the table of a page."""
    outcomes = {}
    for line in page.partition(BEGIN)[2].partition(END)[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[1] and not line.startswith(("| outcome", "|---")):
            verdict = cells[0].rpartition(" (")[0]
            outcomes |= dict.fromkeys(cells[1].split(", "), (verdict, cells[2]))
    return outcomes


def with_table(page: str, lines: str) -> str:
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{lines}\n\n{END}{after}"


def changes(page: str, outcomes: Iterable[Outcome]) -> list[str]:
    """What differs from the table of a page, one line per architecture."""
    kept = kept_outcomes(page)
    return [
        f"{outcome.name}: {outcome.verdict} ({outcome.reason}); the table says {kept.get(outcome.name)}"
        for outcome in outcomes
        if kept.get(outcome.name) != (outcome.verdict, outcome.reason.replace("|", " "))
    ]


def main(arguments: Sequence[str] | None = None, run: Callable[[str], Outcome] = apart) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="architectures (default: all of them)")
    parser.add_argument("--check", action="store_true", help="compare with docs/models.md instead of writing it")
    asked = parser.parse_args(arguments)
    outcomes = []
    for name in asked.names or architectures():
        outcomes.append(run(name))
        sys.stderr.write(f"{outcomes[-1]}\n")
    counts = collections.Counter(outcome.verdict for outcome in outcomes)
    sys.stderr.write(", ".join(f"{verdict}: {counts[verdict]}" for verdict in VERDICTS) + "\n")
    page = TARGET.read_text(encoding="utf-8")
    if not asked.names and not asked.check:
        TARGET.write_text(with_table(page, table(outcomes)), encoding="utf-8")
    changed = changes(page, outcomes) if asked.check else []
    sys.stderr.writelines(f"{line}\n" for line in changed)
    return int(bool(changed or counts[WRONG] or counts[CRASH]))


if __name__ == "__main__":
    sys.exit(main())
