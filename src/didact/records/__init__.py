"""Explanations as values: what they hold, how they are saved, shown and brought to one scale. No torch.

`explanations.py` holds the scores of many rows, `parquet.py` is their form on disk, `origin.py` checks what they were
made of before others replace them, `views.py` shows them, `normalise.py` brings them to one scale.
"""
