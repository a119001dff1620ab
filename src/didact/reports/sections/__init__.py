"""The sections of a report: each a pure function from what was read to a part of the page."""
