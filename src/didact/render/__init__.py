"""What people see: texts with marks, tables, pictures, progress with the time left. No torch in this room."""

from typing import Final

GENERATOR: Final = '<meta name="generator" content="didact">'  # by which a page is known as one of ours
