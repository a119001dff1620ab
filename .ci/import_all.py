"""Imports every module of the installed didact. A module may only miss a package that its extra installs."""

import importlib
import importlib.metadata
import pkgutil
import re
import sys

import didact

EXTRAS = {"didact.study": "study", "didact.execution.ray": "ray"}  # the modules that need an extra to load


def packages_of(extra: str) -> set[str]:
    """Names of the distributions that `extra` installs, as they are imported."""
    lines = importlib.metadata.requires("didact") or []
    found = {re.split(r"[<>=!;\[ ]", line)[0] for line in lines if f'extra == "{extra}"' in line.replace("'", '"')}
    return {name.replace("-", "_") for name in found}


def main() -> int:
    faults, skipped, count = [], [], 0
    for module in pkgutil.walk_packages(didact.__path__, "didact."):
        extra = next((extra for prefix, extra in EXTRAS.items() if module.name.startswith(prefix)), None)
        try:
            importlib.import_module(module.name)
            count += 1
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if extra is not None and package in packages_of(extra):
                skipped.append(module.name)
            else:
                faults.append(f"{module.name} needs {error.name}, which neither a dependency nor its extra installs.")
    sys.stdout.write(f"       {count} modules imported, {len(skipped)} need an extra: {', '.join(skipped) or 'none'}\n")
    for fault in faults:
        sys.stderr.write(f"{fault}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
