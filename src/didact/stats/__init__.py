"""Statistics over seeds, rows and people. Numpy and scipy only; no torch in this package.

Of students: `bootstrap` (intervals of a gain), `paired` (tests over seeds), `holm` (correction for several tests),
`summary` (median and quartiles), `ranking` (ranks, and how far two rankings agree). Of people: `concordance` (Kendall's
W, Krippendorff's alpha), `crossed` (intervals over people and items), `permutation` (tests between groups),
`plackett_luce` (worths from rankings), `power` (how many people a study needs). To add one: a module of functions on
arrays, scipy imported inside them, and a test against a closed form or a literal re-implementation in tests/stats.
"""
