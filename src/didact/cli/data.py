"""`didact data list` and `didact data show`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from didact.cli import inputs
from didact.cli.help import HelpGroup, command, epilog
from didact.cli.options import Json, configured
from didact.cli.output import console, print_json, print_table
from didact.config import DataOptions, Group, Option
from didact.data import DATASETS
from didact.field_types import Count, Name, Seed

if TYPE_CHECKING:
    from didact.core.dataset import Dataset
    from didact.core.row import Row

app = typer.Typer(
    cls=HelpGroup,
    help="List data sets, or show rows of one or of your own file.",
    no_args_is_help=True,
    epilog=epilog("didact data list", "didact data show reviews.csv --columns text=comment --rows 3"),
)


class ShowConfig(DataOptions):
    """The options of `didact data show`."""

    data: Annotated[Name, Option(Group.DATA, "DATA", is_argument=True)]
    """A file or folder, or a name from `didact data list`."""
    classes: tuple[str, ...] = ()
    """Not on the command line: labels are shown as in the data."""
    split: Annotated[Name | None, Option(Group.DATA, "SPLIT")] = None
    """teach, explain, train, dev, test or all (default: all rows of a file, else test)."""
    rows: Annotated[Count, Option(Group.DATA, "N")] = 5
    """Number of rows to show."""
    seed: Annotated[Seed, Option(Group.DATA, "N")] = 0
    """Seed of planted data."""


@command(app, "list", "didact data list", "didact data list --json")
def list_names(as_json: Json = False) -> None:
    """List the data sets that didact knows by name.

    Shows the task of each, its sources, and whether people marked words (rationales). Loads nothing.
    """
    if as_json:
        rows = [
            {"name": name, "task": entry.task, "sources": list(entry.sources), "rationales": entry.rationales}
            for name, entry in DATASETS.items()
        ]
        print_json({"rows": rows})
        return
    print_table(
        ("name", "task", "sources", "rationales", "what it is"),
        [
            (name, entry.task, ", ".join(entry.sources), "yes" if entry.rationales else "-", entry.about)
            for name, entry in DATASETS.items()
        ],
    )
    typer.echo("Your own files work, too (JSON lines, CSV, Parquet, .npz): didact data show reviews.jsonl")


@command(
    app,
    "show",
    "didact data show planted/sentiment --split test --rows 3",
    "didact data show reviews.csv --columns text=comment,label=verdict",
)
@configured(ShowConfig)
def show(config: ShowConfig, as_json: Json = False) -> None:
    """Show rows of a data set, with the words that people marked."""
    loaded = inputs.open_data(config, seed=config.seed)
    rows = loaded[inputs.chosen_split(loaded, config.split)][: config.rows]
    if as_json:
        print_json({"rows": [_document(row, loaded) for row in rows]})
        return
    sizes = [f"{name} {len(split):,}" for name, split in loaded.items()]
    if loaded.all_rows is not None:
        sizes.insert(0, f"all {len(loaded.all_rows):,}")
    typer.echo(f"{loaded.name}: {loaded.task} ({', '.join(sizes)}), fingerprint {loaded.fingerprint}")
    show_rows(list(rows), loaded)


def show_rows(rows: "list[Row]", data: "Dataset") -> None:
    """Print id and label of each row, then its texts with the rationale marked, or its image."""
    from rich.text import Text

    from didact.viz.terminal import draw_image, highlight

    out = console()
    colour = out.is_terminal and not out.no_color
    for row in rows:
        out.print(Text.assemble("\n", (row.id, "bold"), "  ", label_text(row, data)))
        if row.image is not None:
            out.print(draw_image(row.image, [tuple(box) for box in row.rationale or ()], colour=colour))  # type: ignore[misc]
        names = data.segments or data.task.segments
        for segment, text in enumerate(row.texts):
            spans = [(span[1], span[2]) for span in row.rationale or () if span[0] == segment]
            before = f"  {names[segment]}: " if len(row.texts) > 1 else "  "
            out.print(Text.assemble(before, highlight(text, spans, colour=colour)), soft_wrap=True)


def label_text(row: "Row", data: "Dataset") -> str:
    """The gold label as text."""
    if row.label is None:
        return "no label"
    if isinstance(row.label, tuple):
        return " | ".join(dict.fromkeys(row.text_of(span) for span in row.answers)) or "no answer"
    if data.classes is not None:
        return data.classes[int(row.label)]
    return f"{row.label:.3g}"


def _document(row: "Row", data: "Dataset") -> dict[str, Any]:
    return {
        "id": row.id,
        "texts": list(row.texts),
        "image": None if row.image is None else list(row.image.shape),
        "label": label_text(row, data) if data.classes is not None and row.label is not None else row.label,
        "rationale": None if row.rationale is None else [list(span) for span in row.rationale],
        **({} if row.rationale_weights is None else {"rationale_weights": list(row.rationale_weights)}),
        "alignments": None
        if row.alignments is None
        else [[list(aligned_span) for aligned_span in pair] for pair in row.alignments],
    }
