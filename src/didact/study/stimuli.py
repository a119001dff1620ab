"""What people see, frozen before the first of them comes: `stimuli.json` and pictures. To show it needs no numpy."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from didact.errors import DataError
from didact.files.atomic import write_bytes
from didact.files.sealed import read_json
from didact.results.documents import VERSION, check_version, save_document

if TYPE_CHECKING:
    from didact.results.row_explanation import RowExplanation as Explained
    from didact.viz.heat import Heat

FILE: Final = "stimuli.json"
NEWEST: Final = 1  # version of its schema
_AGAIN: Final = "Restore the file, or make the study again."
PICTURES: Final = "images"


@dataclass(frozen=True)
class Picture:
    file: str
    width: int
    height: int


@dataclass(frozen=True)
class View:
    """One explanation as it is shown: texts in stretches (text, class of the style), or patches over a picture."""

    texts: tuple[tuple[tuple[str, str], ...], ...] = ()
    patches: tuple[tuple[int, int, int, int, str, float], ...] = ()  # x, y, width, height, class, opacity


@dataclass(frozen=True)
class Stimulus:
    """An item as it is shown. `names` are what its texts are called; one text alone has the name ""."""

    names: tuple[str, ...]
    texts: tuple[str, ...]
    picture: Picture | None
    views: Mapping[str, View]  # by method


@dataclass(frozen=True)
class Stimuli:
    """All items of a study by id, and the made-up example of the instructions."""

    items: Mapping[str, Stimulus]
    example: Stimulus

    def save(self, folder: Path) -> None:
        save_document(folder / FILE, asdict(self), NEWEST)

    @property
    def pictures(self) -> frozenset[str]:
        every = [*self.items.values(), self.example]
        return frozenset(one.picture.file for one in every if one.picture is not None)


def read_stimuli(folder: Path) -> Stimuli:
    path = folder / FILE
    try:
        document = read_json(path, advice=_AGAIN)
        check_version(document, NEWEST, path)
        document.pop(VERSION, None)
        return TypeAdapter(Stimuli).validate_python(document)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read ({error}). Restore the file, or make the study anew.") from error


def frozen(
    shown: Mapping[str, "Explained"], image: Any, names: Sequence[str], folder: Path, *, signs: bool
) -> Stimulus:
    """One item as every method explains it. Without `signs` only sizes are shown: no method is told by its colours."""
    first = next(iter(shown.values()))
    picture = None if image is None else save_picture(image, folder)
    views = {method: _view(_plainer(one.heat(), signs=signs)) for method, one in shown.items()}
    return Stimulus(tuple(names) if len(first.texts) > 1 else ("",) * len(first.texts), first.texts, picture, views)


def save_picture(image: Any, folder: Path) -> Picture:
    """The picture as PNG under the name of its content."""
    import numpy as np
    from PIL import Image

    pixels = np.asarray(image)
    pixels = pixels[..., 0] if pixels.shape[-1] < 3 else pixels[..., :3]
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, format="PNG")
    name = f"{hashlib.sha256(buffer.getvalue()).hexdigest()}.png"
    (folder / PICTURES).mkdir(exist_ok=True)
    write_bytes(folder / PICTURES / name, buffer.getvalue())
    return Picture(name, pixels.shape[1], pixels.shape[0])


def _plainer(heat: "Heat", *, signs: bool) -> "Heat":
    if signs:
        return heat
    kind = "binary" if heat.kind == "binary" else "magnitude"
    return replace(heat, kind=kind, units=[unit._replace(score=abs(unit.score)) for unit in heat.units])


def _view(heat: "Heat") -> View:
    from didact.viz.page import patches as patches_of
    from didact.viz.page import pieces

    texts = [tuple((piece.text, piece.look) for piece in pieces(heat, number)) for number in range(len(heat.texts))]
    patches = []
    for patch in patches_of(heat):
        top, left, bottom, right = patch.box
        if patch.look:
            patches.append((left, top, right - left, bottom - top, patch.look, patch.opacity))
    return View(tuple(texts), tuple(patches))
