"""The sections of a report: each a pure function from what was read to data; templates draw it.

`headline` lays out what `didact.reports.verdict` says, `people` shows a study; the others take a `Comparison`.
"""
