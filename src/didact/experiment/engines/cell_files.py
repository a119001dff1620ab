"""What of a run's folder a cell reads: what must travel to whoever does it elsewhere."""

import json
from pathlib import Path

from didact.errors import OptionError


class CellFiles:
    """Which files of the run's folder each cell reads."""

    def __init__(self, manifest: Path) -> None:
        self.folder = manifest.parent.parent
        content = json.loads(manifest.read_bytes())
        self._common = [f"classroom/{name}" for name in (manifest.name, content.get("rows")) if name]
        self._cells = {cell["key"]: cell for cell in content["cells"]}
        self._found: dict[str, list[str]] = {}  # by name of a start, of explanations or of parts

    def check_bases(self) -> None:
        """An error if a student starts from weights in a folder that other machines cannot find by its name."""
        for start in sorted({cell["start"] for cell in self._cells.values() if cell.get("start")}):
            about = json.loads((self.folder / "classroom" / "starts" / start / "start.json").read_bytes())
            facts = about["facts"]
            for base in (facts.get("base"), facts.get("options", {}).get("embeddings")):
                if base is not None and Path(base).is_dir() and not Path(base).is_absolute():
                    raise OptionError(
                        f"Student {about['spec']!r} starts from the folder {base!r}, which the machines of a cluster "
                        "look for by its name. Train the teacher from, or name the student with, its full path, at "
                        "which every machine has it; or take a base by its name on the hub, or the engine local."
                    )

    def together(self, key: str) -> list[str]:
        """The cells that are done in one with this, itself among them."""
        return list(self._cells[key].get("together") or [key])

    def of(self, key: str) -> list[str]:
        cell = self._cells[key]
        names = [f"classroom/starts/{cell['start']}"] if cell.get("start") else []
        group = [self._cells[one] for one in self.together(key)]  # each with its own explanations
        found = [one[name] for one in group for name in ("maps", "parts") if one.get(name)]
        names += [f"explanations/{name}" for name in dict.fromkeys(found)]
        return self._common + [file for name in names for file in self._below(name)]

    def _below(self, name: str) -> list[str]:
        """The file of this name, or the files in the folder, or those of parts, which are two beside each other."""
        if name not in self._found:
            path = self.folder / name
            beside = [path.with_suffix(ending) for ending in (".parquet", ".safetensors")]
            files = {file for file in (path, *beside, *path.rglob("*")) if file.is_file()}
            self._found[name] = [str(file.relative_to(self.folder).as_posix()) for file in sorted(files)]
        return self._found[name]
