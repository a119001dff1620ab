"""Strategies: how a student uses explanations. One module per strategy, listed in `STRATEGIES` by name.

A strategy does not build the student. It converts explanations to what the student receives (`lesson`), names the
fields of the student's forward pass that it reads (`listen`), and computes a loss (`forward`), which
`didact.learning.fit` adds to the loss of the task. `strategy` has the base class, `lesson` the conversions, `build`
parses names such as `same/attention(beta=2)@sgd`, and `crf` serves `multitask`.

To add a strategy, write a module with a subclass of `Strategy`, add a line here, and add a line to `STUDENTS` in
tests/students/test_strategies.py, which puts it into the contract suite.
"""

from dataclasses import dataclass

from didact.registry import Entry, Registry


@dataclass(frozen=True)
class StrategyEntry(Entry):
    """What a strategy needs of a student (nothing, attention, states, self-attention), what it does, and its paper."""

    needs: str
    about: str
    paper: str


def _strategy_entry(target: str, needs: str, about: str, paper: str) -> StrategyEntry:
    return StrategyEntry(f"didact.students.{target}", needs, about, paper)


STRATEGIES: Registry[StrategyEntry] = Registry(
    "strategy",
    {
        "none": _strategy_entry("unexplained:Unexplained", "nothing", "sees no explanations", "control"),
        "attention": _strategy_entry(
            "attention:Attention", "attention", "its attention is trained towards the explanation",
            "Pruthi et al. 2022, eq. 2; Fernandes et al. 2022, eq. 3",
        ),
        "multitask": _strategy_entry(
            "multitask:Multitask", "states", "also tags the units that the explanation marks",
            "Pruthi et al. 2022, section 3",
        ),
        "gradient": _strategy_entry(
            "gradient:Gradient", "nothing", "its gradient × input is drawn to the explanation, signs included",
            "Parchami-Araghi et al. 2024 (e²KD)",
        ),
        "alignment": _strategy_entry(
            "alignment:Alignment", "self-attention", "its attention goes from question phrases to passage phrases",
            "Pruthi et al. 2022, section 3",
        ),
    },
    group="didact.strategies",
    reserved=("pruthi", "smat"),
)  # fmt: skip
