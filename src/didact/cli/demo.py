"""`didact demo`: which explanation of a model can be trusted, offline, in a few minutes."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from didact.cli import options
from didact.cli.options import flag, option
from didact.cli.output import console, going_on, print_json, say
from didact.errors import OptionError

if TYPE_CHECKING:
    from didact.experiment.demo import Demo
    from didact.results.comparison import Comparison

# Shown side by side, if they are there: the truth, chance, and what people use most.
_SHOWN = ("human", "random", "gradient_norm", "integrated_gradients", "lime(samples=100)", "attention_all", "l2e")

EXAMPLES: Final = ("didact demo --quick", "didact demo --model my-model --data reviews.csv --out runs/my-demo")


def demo(
    quick: Annotated[bool, flag("--quick", "One seed and no intervals: about a minute.")] = False,
    full: Annotated[bool, flag("--full", "Eight seeds, more methods and controls: half an hour.")] = False,
    seed: Annotated[
        int, option("--seed", "N", "Seed of planted data, teacher and students.", options.ADVANCED, min=0)
    ] = 0,
    model: Annotated[
        str | None, option("--model", "MODEL", "Your own model (folder or hub name); with --data.", options.MODEL)
    ] = None,
    data: Annotated[str | None, options.DATA_OPTION] = None,
    task: options.Task = None,
    length: options.Length = None,
    truncate: options.Truncate = False,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    data_dir: options.DataDir = None,
    device: options.TeacherDevice = None,
    workers: options.Workers = None,
    out: Annotated[
        Path | None,
        option("--out", "FOLDER", "Folder (default: runs/demo; your own: runs/demo-DATA).", options.OUTPUT),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """See a whole comparison offline, in about three minutes.

    Trains a teacher on data whose truth is known, and shows which explanations teach students to predict it. Three
    seeds and 250 rows per student: few, and marked as such. The methods are also measured by faithfulness, stability,
    truth, agreement and cost, and a page shows everything. With --model and --data it does the same with your own. The
    same command resumes a demo that was stopped.
    """
    if quick and full:
        raise OptionError("--quick and --full were both given: choose one.")
    began = time.monotonic()
    from didact.experiment.demo import Demo, one_thread

    found = Demo(
        "quick" if quick else "full" if full else "default", out=out, seed=seed, model=model, data=data,
        data_dir=data_dir, task=task, length=length, truncate=truncate, revision=revision,
        trust_remote_code=trust_remote_code, device=device, workers=workers, progress=True,
    )  # fmt: skip
    one_thread(found)
    with going_on():
        failed = _Show(found, is_silent=as_json).run(began)
    if failed:
        say(f"{failed} runs failed; the same command tries them again.")
        raise typer.Exit(1)


class _Show:
    """The steps of a demo, each told before it is taken. `is_silent` leaves stdout to one JSON document."""

    def __init__(self, demo: "Demo", *, is_silent: bool) -> None:
        self.demo, self.is_silent = demo, is_silent
        self.number = 0

    def run(self, began: float) -> int:
        """All steps; gives how many cells failed."""
        self._data()
        self._teacher()
        self._distil()
        result = self._compare()
        self._sentence()
        self._end(result, began)
        return len(result.failed)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _data(self) -> None:
        demo = self.demo
        data = demo.data
        if demo.is_own:
            self.heading(f"Your data: {data.name}")
            self.tell(f"It is {data.task}: " + ", ".join(f"{len(split):,} {name}" for name, split in data.items()))
            for note in demo.notes:
                self.tell(note)
            return
        from didact.cli.data import show_rows

        self.heading("Data whose truth is known: planted/sentiment")
        self.tell("The marked words decide the label; nothing else does.")
        if not self.is_silent:
            show_rows(list(data["test"][:2]), data)

    def _teacher(self) -> None:
        demo = self.demo
        if demo.is_own:
            self.heading(f"Your model: {demo.model}")
            teacher = demo.teacher
            classes = "" if teacher.classes is None else f", with the classes {', '.join(teacher.classes[:10])}"
            self.tell(f"It does {teacher.task}{classes}. It stays as it is; nothing is trained but students.")
            self.tell("How long this takes depends on the model: large ones can take hours on a CPU.")
            return
        from didact.experiment.demo import EPOCHS, is_verified

        self.heading("A teacher: a transformer of two layers, trained from scratch")
        teacher = demo.teacher
        metrics = getattr(teacher, "record", {})["metrics"]
        told = (
            f"Kept from an earlier demo, in {demo.home / 'teacher'}."
            if demo.is_kept
            else f"Trained on {len(demo.data['teach']):,} sentences, {EPOCHS} times over."
        )
        self.tell(f"{told} Accuracy on {metrics['test_rows']:,} test sentences: {metrics['test_accuracy']:.1%}.")
        self.tell(
            "Does it answer for the right reasons? With all unmarked words drawn anew it keeps its answer on "
            f"{metrics['kept']:.1%} of sentences (99 % wanted); with the marked words drawn anew it follows the new "
            f"label on {metrics['followed']:.1%} (95 % wanted)."
        )
        self.tell(
            "So the marked words are what it reads, and explanations can be held against them as truth."
            if is_verified(teacher)
            else "So the marked words are not proven to be what it reads: do not take them for the truth of this "
            "teacher. Another --seed trains another one."
        )

    def _distil(self) -> None:
        demo = self.demo
        imitated = demo.size.imitate
        if imitated is None:
            return
        self.heading(f"A fast imitation: L2E learns what {imitated} would say")
        learned = demo.distil()
        if learned is None:
            self.warn(f"Left out: l2e: {demo.left_out['l2e']}")
            return
        metrics = learned.learned["metrics"]
        told = f"One network learned from {metrics['train_rows'] + metrics['dev_rows']:,} explained rows."
        if metrics["dev_spearman"] is not None:
            told += (
                " On the tenth of them that was held out its scores rank words like the imitated ones with Spearman's "
                f"ρ = {metrics['dev_spearman']:.2f}."
            )
        self.tell(told)

    def _compare(self) -> "Comparison":
        from didact.results.gains import FEW

        demo = self.demo
        size = demo.size
        seeds = "one seed" if size.seeds == 1 else f"{size.seeds} seeds"
        few = ", which is few" if size.seeds < FEW else ""
        self.heading(f"Students: which explanations teach? {demo.rows} rows each, {seeds}{few}")
        self.tell(
            f"Every student learns the teacher's answers to the same {demo.rows} rows of a seed. One sees these alone "
            "(none), the others an explanation of each answer, too. Then all predict the teacher on rows they never "
            "saw, with no explanation."
        )
        methods = demo.explainers
        for name, why in demo.left_out.items():
            if name != "l2e":
                self.warn(f"Left out: {name}: {why}")
        if "smat" in methods and len(size.sharpness) == 1:
            self.tell(
                "SMaT is learned anew for each seed, from that seed's rows. Beside it stands static attention, "
                f"sharpened at one temperature, {size.sharpness[0]:g}, fixed beforehand (--full tries several on dev)."
            )
        return demo.compare()

    def _sentence(self) -> None:
        if self.is_silent or not self.demo.data.task.is_text:
            return
        from didact.records.views import side_by_side

        maps = [one for one in self.demo.shown(1) if one.method in _SHOWN]
        if maps:
            self.heading("One row, as some of the methods explain it")
            side_by_side(sorted(maps, key=lambda one: _SHOWN.index(one.method)))

    def _end(self, result: "Comparison", began: float) -> None:
        from didact.reports.build import report
        from didact.reports.verdict import CAUTION, verdict_of
        from didact.results.comparison import Comparison

        self.heading("The ranking")
        self.tell(result.table(), wrap=False)
        path = report(self.demo.folder)
        verdict = verdict_of(Comparison.load(self.demo.folder))
        self.heading("What it means")
        self.tell(verdict.text)
        self.tell(CAUTION[0].partition(". ")[0] + ".")
        seconds = time.monotonic() - began
        if self.is_silent:
            print_json(
                {
                    "out": str(self.demo.folder), "report": str(path), "ranking": result.ranking(),
                    "verdict": verdict.text, "seconds": round(seconds, 1),
                }
            )  # fmt: skip
        else:
            typer.echo(f"\nThe report: {path}")
            typer.echo(f"Done in {seconds:.0f} s. Open the report in a browser; it needs nothing else.")

    # -- how it speaks ------------------------------------------------------------------------------------------------

    def heading(self, text: str) -> None:
        from rich.text import Text

        self.number += 1
        if not self.is_silent:
            console().print(Text(f"\n{self.number}. {text}", style="bold"))

    def warn(self, text: str) -> None:
        """What people should know, and those who read JSON, too."""
        if self.is_silent:
            say(text)
        else:
            self.tell(text)

    def tell(self, text: str, *, wrap: bool = True) -> None:
        """Prose is wrapped between words; tables are left as they are."""
        if self.is_silent:
            return
        if not wrap:
            typer.echo(text)
            return
        from rich.text import Text

        console().print(Text(text))
