"""The variance of a mean over an incomplete crossing, literally: with dense matrices of clusters."""

import numpy as np


def literal_contrast(differences, seeds, rows, strata):
    """Difference, unbiased variance, and the variances from seeds and rows alone."""
    seeds, rows, strata = (np.asarray(values) for values in (seeds, rows, strata))
    number = len(differences)
    weights = np.zeros(number)
    for stratum in np.unique(strata):
        present = [seed for seed in np.unique(seeds) if ((seeds == seed) & (strata == stratum)).any()]
        for seed in present:
            group = (seeds == seed) & (strata == stratum)
            weights[group] = 1 / (len(np.unique(strata)) * len(present) * group.sum())
    projection = np.zeros((number, number))
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        projection[np.ix_(members, members)] = weights[members] / weights[members].sum()
    residual_maker = np.diag(weights) @ (np.eye(number) - projection)
    clusters = [list(seeds), list(rows), list(zip(seeds, rows, strict=True))]
    indicators = []
    for labels in clusters:
        names = list(dict.fromkeys(labels))
        indicators.append(np.array([[label == name for name in names] for label in labels], dtype=float))
    residuals = residual_maker @ differences
    squares = np.array([((Z.T @ residuals) ** 2).sum() for Z in indicators])
    expectations = np.array([[((Z.T @ residual_maker @ Y) ** 2).sum() for Y in indicators] for Z in indicators])
    scales = np.array([((Z.T @ weights) ** 2).sum() for Z in indicators])
    variances = np.linalg.solve(expectations, squares)
    alone = squares * scales / np.diag(expectations)
    return weights @ differences, scales @ variances, alone[0], alone[1]
