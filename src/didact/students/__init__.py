"""How a student uses explanations: one module per strategy, and what is sent to it.

`STRATEGIES` lists them as plain text. A strategy receives a model and never builds one: it says what of an
explanation it wants (`lesson`), what it must hear of the student's forward pass (`listen`), and what the student
loses by ignoring it (`forward`). `didact.learning.fit` adds that loss to the task's. `build` reads a student's name,
such as `same/attention(beta=2)@sgd`; `crf` serves `multitask`.

To add one: a module with a `Strategy`, a line here, and a line in `STUDENTS` of tests/students/test_strategies.py,
which puts it into the contract suite.
"""

from dataclasses import dataclass

from didact.registry import Entry, Registry


@dataclass(frozen=True)
class StrategyEntry(Entry):
    """What a strategy asks of a student (nothing, attention, states, self-attention), and who proposed it."""

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
            "attention:Attention", "attention", "its attention is drawn to the explanation",
            "Pruthi et al. 2022, eq. 2; Fernandes et al. 2022, eq. 3",
        ),
        "multitask": _strategy_entry(
            "multitask:Multitask", "states", "tags the explanation's units beside its answer",
            "Pruthi et al. 2022, section 3",
        ),
        "alignment": _strategy_entry(
            "alignment:Alignment", "self-attention", "its attention goes from question phrases to passage phrases",
            "Pruthi et al. 2022, section 3",
        ),
    },
    group="didact.strategies",
    reserved=("pruthi", "smat"),
)  # fmt: skip
