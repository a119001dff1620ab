"""What people see: `stimuli.json` and pictures, frozen when the study is created. Showing them needs no numpy."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from didact.files.atomic import write_bytes
from didact.results.documents import load_document, save_document, validated

if TYPE_CHECKING:
    from didact.results.row_explanation import RowExplanation
    from didact.viz.heat_map import HeatMap

FILE: Final = "stimuli.json"
VERSION: Final = 1  # version of its schema
_ADVICE: Final = "Restore the file, or create the study again."
PICTURES: Final = "images"


@dataclass(frozen=True)
class Picture:
    file: str
    width: int
    height: int


@dataclass(frozen=True)
class View:
    """One explanation as shown: texts as stretches (text, CSS class), or patches over a picture."""

    texts: tuple[tuple[tuple[str, str], ...], ...] = ()
    patches: tuple[tuple[int, int, int, int, str, float], ...] = ()  # x, y, width, height, CSS class, opacity


@dataclass(frozen=True)
class Stimulus:
    """An item as shown. `names` are the names of its texts; a single text has the name ""."""

    names: tuple[str, ...]
    texts: tuple[str, ...]
    picture: Picture | None
    views: Mapping[str, View]  # by method


@dataclass(frozen=True)
class Stimuli:
    """All items of a study by id, and the example in the instructions."""

    items: Mapping[str, Stimulus]
    example: Stimulus

    def save(self, folder: Path) -> None:
        save_document(folder / FILE, asdict(self), VERSION)

    @property
    def pictures(self) -> frozenset[str]:
        stimuli = [*self.items.values(), self.example]
        return frozenset(stimulus.picture.file for stimulus in stimuli if stimulus.picture is not None)


def read_stimuli(folder: Path) -> Stimuli:
    path = folder / FILE
    return load_document(path, VERSION, validated(Stimuli), advice=_ADVICE, missing=f"{path} is missing. {_ADVICE}")


def freeze_stimulus(
    shown: Mapping[str, "RowExplanation"], image: Any, names: Sequence[str], folder: Path, *, signs: bool
) -> Stimulus:
    """One item as every method explains it. Without `signs`, colours show only the size of scores."""
    first = next(iter(shown.values()))
    picture = None if image is None else save_picture(image, folder)
    views = {
        method: _view(_without_signs(explanation.heat_map(), signs=signs)) for method, explanation in shown.items()
    }
    return Stimulus(tuple(names) if len(first.texts) > 1 else ("",) * len(first.texts), first.texts, picture, views)


def save_picture(image: Any, folder: Path) -> Picture:
    """Write a picture as PNG, named by the hash of its content."""
    from didact.viz.png import encode_png

    content = encode_png(image)
    name = f"{hashlib.sha256(content).hexdigest()}.png"
    (folder / PICTURES).mkdir(exist_ok=True)
    write_bytes(folder / PICTURES / name, content)
    return Picture(name, image.shape[1], image.shape[0])


def _without_signs(heat_map: "HeatMap", *, signs: bool) -> "HeatMap":
    if signs:
        return heat_map
    kind = "binary" if heat_map.kind == "binary" else "magnitude"
    return replace(heat_map, kind=kind, units=[unit._replace(score=abs(unit.score)) for unit in heat_map.units])


def _view(heat_map: "HeatMap") -> View:
    from didact.viz.page import patches as patches_of
    from didact.viz.page import pieces

    texts = [
        tuple((piece.text, piece.look) for piece in pieces(heat_map, number)) for number in range(len(heat_map.texts))
    ]
    patches = []
    for patch in patches_of(heat_map):
        top, left, bottom, right = patch.box
        if patch.look:
            patches.append((left, top, right - left, bottom - top, patch.look, patch.opacity))
    return View(tuple(texts), tuple(patches))
