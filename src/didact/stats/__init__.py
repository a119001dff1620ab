"""What numbers of many seeds and rows amount to: intervals, tests, ranks. Numpy and scipy only; no torch in this room.

`bootstrap.py` has intervals of a gain, `paired.py` tests of it over seeds, `holm.py` the correction for many tests,
`ranking.py` ranks and how far rankings agree, `summary.py` median and quartiles. To add one: a module of functions on
arrays, scipy imported inside them, and a test against a closed form or a literal re-implementation in tests/stats.
"""
