"""What every chart shares: drawn by altair and vl-convert, offline, into a picture file.

Both are imported when the first picture is asked for.
"""

import io
import json
from functools import cache
from html import escape
from typing import Any, Final

from didact.errors import MissingExtraError, OptionError

KINDS: Final = ("png", "svg", "html", "json")
GREENS: Final = ["#bfe8da", "#009e73", "#00382a"]  # starts well below white, which is kept for exact zeros
BOTH_SIGNS: Final = ["#0072b2", "#e4e4e4", "#e66a08"]
BLANK, BORDER, QUIET = "#ffffff", "#d9dce1", "#5c6370"

# Vega compiles its expressions at run time; nothing may be fetched.
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:"
)
_DRAW: Final = (
    "vegaEmbed('#chart', JSON.parse(document.getElementById('spec').textContent), {actions: false, renderer: 'svg'});"
)


def altair() -> Any:
    """The package that draws, or an error that says how to get it."""
    try:
        import altair
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f"Pictures are drawn by altair and vl-convert, and {error.name} cannot be imported: "
            "pip install altair vl-convert-python."
        ) from None
    return altair


def check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise OptionError(f"There is no picture of kind {kind!r}. Choose one of {', '.join(KINDS)}.")


def picture(chart: Any, kind: str, *, title: str) -> bytes:
    """The content of a picture file: png, svg, html (one page that works offline) or json (Vega-Lite)."""
    check_kind(kind)
    if kind == "json":
        return chart.to_json().encode()
    if kind == "html":
        return _document(title, chart.to_dict()).encode()
    if kind == "svg":
        drawn = io.StringIO()
        chart.save(drawn, format="svg")
        return drawn.getvalue().encode()
    painted = io.BytesIO()
    chart.save(painted, format="png", scale_factor=2)
    return painted.getvalue()


def _document(title: str, spec: dict[str, Any]) -> str:
    # The words of the data stay out of the script: as JSON, without a "<" that could end the element.
    data = json.dumps(spec).replace("<", "\\u003c")
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f'</head>\n<body>\n<div id="chart"></div>\n<script type="application/json" id="spec">{data}</script>',
            f"<script>{_script()}</script>\n</body>\n</html>\n",
        ]
    )


@cache
def _script() -> str:
    import altair
    import vl_convert

    version = ".".join(altair.SCHEMA_VERSION.split(".")[:2])
    return vl_convert.javascript_bundle(_DRAW, vl_version=version).replace("</script", "<\\/script")
