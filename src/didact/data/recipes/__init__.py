"""Real data sets: one function each, which takes options and returns a `Recipe`. See docs/data.md.

Texts with a class are in `labelled`, texts with a class and marked words in `marked`. Every other set has its own file.
"""
