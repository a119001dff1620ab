"""What the site does beside mkdocs: it shows a notebook with its outputs where a page asks for one."""

import html
import json
from pathlib import Path
from typing import Any

_MARK = "<!-- notebook: "


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """`<!-- notebook: example.ipynb -->` becomes its cells. Outputs stay as they are: they were made by didact."""
    if _MARK not in markdown:
        return markdown
    before, _, rest = markdown.partition(_MARK)
    name, _, after = rest.partition(" -->")
    notebook = json.loads((Path(config["docs_dir"]) / name).read_text(encoding="utf-8"))
    page.outputs = []
    cells = "\n\n".join(_cell(cell, page.outputs) for cell in notebook["cells"])
    return f"{before}{cells}{after}"


def on_page_content(content: str, *, page: Any, **_: Any) -> str:
    """Outputs go in after Markdown is done with the page, so that it changes nothing in them."""
    for number, output in enumerate(getattr(page, "outputs", [])):
        content = content.replace(f'<div class="notebook-output" id="output-{number}"></div>', output)
    return content


def _cell(cell: dict[str, Any], outputs: list[str]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source.replace("# ", "## ", 1) if source.startswith("# ") else source
    found = [f"```python\n{source}\n```"]
    shown = "".join(_output(one) for one in cell["outputs"])
    if shown:
        found.append(f'<div class="notebook-output" id="output-{len(outputs)}"></div>')
        outputs.append(f'<div class="notebook-output">{shown}</div>')
    return "\n\n".join(found)


def _output(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return f"<pre>{html.escape(''.join(output['text']))}</pre>"
    data = output.get("data", {})
    if "text/html" in data:
        return "".join(data["text/html"])
    return f"<pre>{html.escape(''.join(data.get('text/plain', '')))}</pre>"
