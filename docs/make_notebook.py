"""Runs the example notebook and writes it with what it showed: `python docs/make_notebook.py`, some minutes."""

import platform
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

import didact

TARGET = Path(__file__).with_name("example.ipynb")

# Text and code in turns.
CELLS = (
    """# Which explanation can you trust?

A small model, data whose truth is known, and three ways to ask which explanation of the model to trust. Everything
runs offline, in a few minutes on two cores.""",
    """import didact

data = didact.load_data("planted/sentiment")  # known words decide the label, nothing else does
row = data["test"][0]
row.texts[0], data.classes[row.label], [row.text_of(span) for span in row.rationale]""",
    """## A teacher

Two layers, from scratch. *Verified* means that it answers for the right reasons: its answer stays when all other words
are drawn again, and follows when the deciding words are.""",
    """teacher = didact.train_teacher(data, "native(layers=2, width=64, heads=4)", progress=False)
{name: teacher.record["metrics"][name] for name in ("test_accuracy", "kept", "followed", "verified")}""",
    """## What it says, and why

Explanations show themselves. Orange speaks for the predicted class, blue against it; point at a word for its score.""",
    """didact.explain(teacher, data["test"][:3], "integrated_gradients")""",
    """Another method says something else about the same rows.""",
    """didact.explain(teacher, data["test"][:3], "gradient_norm")""",
    """## By measures of the explanations

`random` is what chance reaches. The heading is *truth*, since the teacher is verified: `roc_auc` shows how well a
method finds the words that decide.""",
    """methods = ["integrated_gradients", "gradient_norm", "gradient_input", "attention_all"]
maps = [didact.explain(teacher, data["test"][:100], method) for method in methods]
frame = didact.evaluate(maps, teacher, data, metrics=["roc_auc", "comprehensiveness", "sufficiency", "iou_lexical"])
frame""",
    """It is a data frame all the same.""",
    """frame[frame["metric"] == "roc_auc"][["method", "value", "low", "high", "rows"]]""",
    """## By what they teach

Students learn to predict the teacher from 300 of its answers, with and without explanations, and are tested without.
With fewer than five seeds intervals say little.""",
    """result = didact.compare(
    teacher,
    data,
    ["attention_all", "gradient_norm", "gradient_input"],
    ["same/attention"],
    train_sizes=[300],
    seeds=5,
    out="runs/notebook",
)
result""",
    """Two methods against each other: the gain of the first over the second, with its 95 % interval.""",
    """result.contrast(("gradient_norm", "same/attention", 300), ("gradient_input", "same/attention", 300))""",
    """All of it on one page:""",
    """didact.report(result)""",
    """What these numbers do not mean is explained on a page of its own in the guide.""",
)


def notebook() -> nbformat.NotebookNode:
    made = nbformat.v4.new_notebook()
    for number, source in enumerate(CELLS):
        new = nbformat.v4.new_code_cell if number % 2 else nbformat.v4.new_markdown_cell
        made.cells.append(new(source, id=f"cell-{number}"))
    made.metadata = {
        "didact": didact.__version__,
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "version": platform.python_version()},
    }
    return made


def executed(made: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """Run in `folder`; a cell that fails is an error."""
    NotebookClient(made, timeout=1200, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    for cell in made.cells:
        cell.metadata.pop("execution", None)  # the time of the run would change the file each time
    return made


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        nbformat.write(executed(notebook(), Path(place)), TARGET)
    sys.stderr.write(f"{TARGET} is written.\n")
