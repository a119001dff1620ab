"""Code shared by all charts: colours, and offline rendering to picture files with Altair and vl-convert.

Both packages are imported on first use.
"""

import io
from functools import cache
from typing import Any, Final

from markupsafe import Markup

from didact.errors import MissingExtraError, OptionError
from didact.viz.html import render, script_json

KINDS: Final = ("png", "svg", "html", "json")
GREENS: Final = ["#bfe8da", "#009e73", "#00382a"]  # starts well below white, which is reserved for exact zeros
BOTH_SIGNS: Final = ["#0072b2", "#e4e4e4", "#e66a08"]
BLANK, BORDER, QUIET = "#ffffff", "#d9dce1", "#5c6370"

# Vega compiles expressions at run time, so eval is allowed; network requests are not.
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:"
)
_EMBED_SCRIPT: Final = (
    "vegaEmbed('#chart', JSON.parse(document.getElementById('spec').textContent), {actions: false, renderer: 'svg'});"
)


def altair() -> Any:
    """The Altair package. Raises MissingExtraError if it or vl-convert is not installed."""
    try:
        import altair
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f"Charts need altair and vl-convert, but {error.name} cannot be imported. Install both: "
            "pip install altair vl-convert-python."
        ) from None
    return altair


def check_kind(kind: str) -> None:
    """Raise OptionError for an unknown picture format."""
    if kind not in KINDS:
        raise OptionError(f"There is no picture format {kind!r}. Choose one of {', '.join(KINDS)}.")


def picture(chart: Any, kind: str, *, title: str) -> bytes:
    """Render a chart as the content of a png, svg, html (one offline page) or json (Vega-Lite) file."""
    check_kind(kind)
    if kind == "json":
        return chart.to_json().encode()
    if kind == "html":
        context = {"title": title, "policy": _POLICY, "script": _embed_bundle(), "spec": script_json(chart.to_dict())}
        return render("didact.viz", "chart.html.j2", **context).encode()
    if kind == "svg":
        output = io.StringIO()
        chart.save(output, format="svg")
        return output.getvalue().encode()
    buffer = io.BytesIO()
    chart.save(buffer, format="png", scale_factor=2)
    return buffer.getvalue()


@cache
def _embed_bundle() -> Markup:
    """The Vega-Embed script. Markup: it comes from an installed package and cannot end its element."""
    import altair
    import vl_convert

    version = ".".join(altair.SCHEMA_VERSION.split(".")[:2])
    return Markup(vl_convert.javascript_bundle(_EMBED_SCRIPT, vl_version=version).replace("</script", "<\\/script"))
