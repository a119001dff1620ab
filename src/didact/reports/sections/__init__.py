"""The sections of a report: each a pure function from what was read to data; templates draw it."""
