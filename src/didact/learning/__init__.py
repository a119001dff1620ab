"""How parameters are fitted: the training loop, and teachers trained with it. SMaT and L2E will live here.

`fit.py` is the one loop; `train.py` makes teachers of data sets and keeps them in a folder.
"""
