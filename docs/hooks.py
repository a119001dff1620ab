"""What the site does beside mkdocs: notebooks are shown with their outputs, and search needs nothing from elsewhere."""

import html
import json
from pathlib import Path
from typing import Any

_MARK = "<!-- notebook: "
_FETCHED = "https://unpkg.com/iframe-worker/shim"  # what the theme's `offline` plugin would load for searching
_OURS = "folder-search.js"


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


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """The script that makes search work from a folder is our own file."""
    return output.replace(_FETCHED, "../" * page.url.count("/") + _OURS)


def on_post_template(output_content: str, *, template_name: str, **_: Any) -> str:
    """The same for pages without a source, such as 404.html."""
    return output_content.replace(_FETCHED, _OURS) if template_name.endswith(".html") else output_content


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
