"""What people see: texts with marks, tables, pictures, progress with the time left. No torch in this room.

HTML is written by the templates in `templates/`, through `html.py`, which escapes whatever came with data.
"""

from typing import Final

GENERATOR: Final = '<meta name="generator" content="didact">'  # by which a page is known as one of ours
