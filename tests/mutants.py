"""Breaks core and explainers in small ways, one at a time, and says which fast test notices.

    python tests/mutants.py [--tree FOLDER] [NAME …]

Not collected by pytest: it takes about ten minutes. The tree (this one, unless another checkout is named) is copied
to a temporary folder, and each change is made there. A mutant is a text that stands in a package exactly once; where
it does not, the change has to be described anew.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: threads do not survive a fork

import pytest
import torch  # noqa: F401
from transformers import BertForSequenceClassification, ElectraForSequenceClassification  # noqa: F401

HERE = Path(__file__).resolve().parents[1]
FAST = "not slow and not browser and not cluster and not network"
PLAIN = "addopts=-ra --strict-markers"  # what a test says of numbers has to notice, not the shapes of annotations
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__", "site", "runs", "dist", "build")


@dataclass(frozen=True)
class Mutant:
    """One change of the source: in a package `old` becomes `new`, and `breaks` says what no longer holds."""

    name: str
    package: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]  # those that know most of it come first

    def place(self, tree: Path) -> Path | None:
        """The file that holds the text, wherever in the package it has moved; None for what a tree has not."""
        found = [
            path
            for path in sorted((tree / "src" / "didact" / self.package).rglob("*.py"))
            for _ in range(path.read_text(encoding="utf-8").count(self.old))
        ]
        if len(found) > 1:
            raise LookupError(f"{self.name}: its text stands {len(found)} times in {self.package}.")
        return found[0] if found else None


MUTANTS = (
    # -- core ---------------------------------------------------------------------------------------------------------
    Mutant(
        "special_tokens", "core", "distinct(mask | ~self.units[row])", "distinct(mask)",
        "special tokens and padding stay when units are taken away",
        ("explainers", "core", "metrics"),
    ),
    Mutant(
        "fallbacks", "core", '("mask", "unk", "pad")', '("mask", "pad", "unk")',
        "a model without a mask token gets the token of unknown words",
        ("explainers", "core"),
    ),
    Mutant(
        "padding", "core", "for row, tokenized in pairs], -1),", "for row, tokenized in pairs], 0),",
        "padding belongs to no word", ("explainers", "core"),
    ),
    Mutant(
        "units_of_words", "core", "/ count.gather(1, index).clamp_min(1) * is_member", "* is_member",
        "a word's mass is shared among its pieces", ("explainers", "core"),
    ),
    Mutant(
        "batching", "core", "np.argsort(-_numpy(lengths)", "np.argsort(_numpy(lengths)",
        "the longest rows pass first", ("core", "explainers"),
    ),
    Mutant(
        "normalise", "core", "mass = scores.abs()", "mass = scores.clamp_min(0.0)",
        "negative scores count as much as positive ones", ("explainers", "core"),
    ),
    Mutant(
        "target", "core", ".tril(longest - 1)", ".tril(longest)",
        "a span has at most so many tokens", ("core", "explainers"),
    ),
    Mutant(
        "loss", "core", ").mean(0)", ").sum(0)",
        "the loss of a span is the mean of its ends'", ("core", "learning", "models"),
    ),
    Mutant(
        "measure", "core", "(len(labels) / (len(classes) * counts))", "(len(labels) / counts)",
        "weights of classes have mean 1", ("core", "explainers"),
    ),
    Mutant(
        "outputs", "core", "np.exp(logits - logits.max(axis=1, keepdims=True))", "np.exp(logits)",
        "probabilities of huge logits are numbers", ("core", "explainers"),
    ),
    Mutant(
        "words", "core", 'offsets[pieces, 0], side="right")', 'offsets[pieces, 0], side="left")',
        "a piece that starts where a word ends is not of that word", ("core", "explainers"),
    ),
    Mutant(
        "shared_weights", "core", "nn.Parameter(parameter.detach(),",
        "nn.Parameter(parameter.detach().clone(),", "a copy sees what becomes of the weights",
        ("models/test_live_models.py", "core", "models"),
    ),
    # -- explainers ---------------------------------------------------------------------------------------------------
    Mutant(
        "integrated_gradients", "explainers",
        "((error <= budget[rows]) & (unit_error <= unit_budget[rows]))", "(error <= budget[rows])",
        "intervals are halved where units err, and their sum does not",
        ("explainers", "core"),
    ),
    Mutant(
        "gradient_input", "explainers", 'at: str = "embedding"', 'at: str = "word"',
        "gradient × input is taken behind the embedding block",
        ("explainers", "core"),
    ),
    Mutant(
        "deeplift", "explainers", "with_gradient_of(_mean(factor.detach(), next(reference)), factor)",
        "with_gradient_of(next(reference), factor)",
        "factors share a product's difference by the mean of the other",
        ("explainers", "core"),
    ),
    Mutant(
        "lrp", "explainers", "gradient / factors", "gradient",
        "factors share what their product is given", ("explainers", "core"),
    ),
    Mutant(
        "attention_rollout", "explainers", "0.5 * attention + 0.5 * identity",
        "0.6 * attention + 0.4 * identity", "half of each token stays where it is",
        ("explainers", "core"),
    ),
    Mutant(
        "attention_flow", "explainers",
        "if (cuts - flows > np.maximum(rounding, TOLERANCE)).any():", "if False:",
        "the flow is that of the whole graph, not of its strongest edges",
        ("explainers", "core"),
    ),
    Mutant(
        "occlusion", "explainers", "values[0] - values[1:]", "values[1:] - values[0]",
        "what is lost without a unit speaks for it", ("explainers", "core"),
    ),
    Mutant(
        "lime", "explainers", "(2 * self.kernel_width**2)", "self.kernel_width**2",
        "samples weigh as in the authors' package", ("explainers", "core"),
    ),
    Mutant(
        "kernel_shap", "explainers", "weights += [subset_weights / 2] * 2", "weights += [subset_weights] * 2",
        "what a size weighs is spent once", ("explainers", "core"),
    ),
    Mutant(
        "shapley_sampling", "explainers", "[orders, orders[:, ::-1]]", "[orders, orders]",
        "every permutation goes with its reverse", ("explainers", "core"),
    ),
    Mutant(
        "value_zeroing", "explainers",
        "(hidden[layer_origin], *output[1:]) if isinstance(output, tuple) else hidden[layer_origin]", "output",
        "every layer starts from the states of the original",
        ("explainers", "core"),
    ),
    Mutant(
        "controls", "explainers", "math.ceil(self.k * len(units))", "math.floor(self.k * len(units))",
        "a block of the control `trivial` is a share of the units, rounded up",
        ("explainers", "core"),
    ),
    Mutant(
        "mix", "explainers", "self.temperature * self.log_temperature.exp().to(components)", "self.temperature",
        "a learned temperature is in force", ("explainers", "explainers", "learning"),
    ),
    Mutant(
        "l2e", "explainers", "scores = scores / positive(scores.abs().amax(1, keepdim=True))", "pass",
        "of several imitated explainers each has its largest score at 1",
        ("learning/test_imitation.py", "explainers", "learning", "learned"),
    ),
    Mutant(
        "completeness", "explainers", "0.01 * scores.abs().sum(-1), floor", "floor, floor",
        "what is missing is judged beside 1 % of all scores",
        ("explainers", "core"),
    ),
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="mutants; all of them by default")
    parser.add_argument("--tree", type=Path, default=HERE, help="the checkout that is broken and tested")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if not options.names or mutant.name in options.names]
    if unknown := set(options.names) - {mutant.name for mutant in MUTANTS}:
        parser.error(f"no such mutants: {', '.join(sorted(unknown))}")
    survived = 0
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place) / "tree"
        shutil.copytree(options.tree, tree, ignore=LEFT_OUT)
        for mutant in chosen:
            start = time.monotonic()
            verdict = _verdict(mutant, tree)
            survived += not verdict.startswith("caught")
            sys.stdout.write(f"{mutant.name:22}{time.monotonic() - start:6.0f} s  {verdict}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(chosen) - survived} of {len(chosen)} caught\n")
    return 1 if survived else 0


def _verdict(mutant: Mutant, tree: Path) -> str:
    path = mutant.place(tree)
    if path is None:
        return "its text is not in this tree"
    source = path.read_text(encoding="utf-8")
    path.write_text(source.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        return _run(tree, mutant.tests)
    finally:
        path.write_text(source, encoding="utf-8")


def _run(tree: Path, tests: tuple[str, ...]) -> str:
    """`caught` and by which test, or `survived`: in forks, so that torch and transformers are loaded once."""
    report = tree / "report.txt"
    for path in (f"tests/{name}" for name in tests if (tree / "tests" / name).exists()):
        child = os.fork()
        if child == 0:
            _test(tree, path, report)
        _, status = os.waitpid(child, 0)
        if code := os.waitstatus_to_exitcode(status):
            printed = report.read_text(encoding="utf-8")
            failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", printed, re.MULTILINE)
            if not failed:
                raise RuntimeError(f"pytest itself failed ({code}):\n{printed[-3000:]}")
            return f"caught by {failed[0]}"
    return "survived"


def _test(tree: Path, path: str, report: Path) -> NoReturn:
    code = 70
    try:
        os.chdir(tree)
        with report.open("w", encoding="utf-8") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        source = str(tree / "src")
        sys.path.insert(0, source)
        os.environ["PYTHONPATH"] = source
        code = int(pytest.main(["-q", "-x", "--assert=plain", "-p", "no:cacheprovider", "-o", PLAIN, "-m", FAST, path]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
