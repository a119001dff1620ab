"""The sections of a report. Each is a pure function from stored results to data, which templates draw.

`headline` lays out the verdict of `didact.reports.verdict`, `people` shows a study; the others show a `Comparison`.
"""
