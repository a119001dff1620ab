"""The numbers of Neely et al. 2022 (*A Song of (Dis)agreement*), as printed: Tables 1 to 6.

Tables 1 and 2 are the means of Tables 5 and 6. `MEANS` and `SPREADS` hold both by model, task and pair of methods.
"""

from itertools import combinations

ATTENTION = "attention"
ADDITIVE = ("lime", "integrated_gradients", "deeplift", "gradient_shap", "deep_shap")
PAIRS = list(combinations((ATTENTION, *ADDITIVE), 2))

# Mean τ-b and its standard deviation over rows: the upper triangle, one line for each method, in the order of PAIRS.
_TABLE_5 = {  # DistilBERT; attention is the rollout
    "imdb": """
        .1259 .1000  .1818 .1256  .2516 .0752  .1432 .1296  .2303 .0826
        .1050 .1069  .0696 .0791  .0929 .0983  .0655 .0796
        .1433 .1443  .5495 .2340  .1246 .1335
        .1306 .1532  .4830 .2469
        .1093 .1342
    """,
    "sst": """
        .1359 .1772  .0511 .1680  .1328 .1764  .0737 .1629  .1291 .1788
        .2861 .1658  .0618 .1702  .2414 .1715  .0499 .1668
        .0498 .1897  .4987 .2405  .0381 .1885
        .0522 .2059  .4514 .3031
        .0419 .1919
    """,
    "mnli": """
        .2678 .1196  .1891 .1302  .2432 .1253  .1905 .1372  .2067 .1609
        .1794 .1324  .1526 .1291  .1592 .1367  .1205 .1493
        .2153 .1748  .4780 .2441  .1708 .1732
        .2324 .2078  .4985 .2949
        .1752 .1902
    """,
    "quora": """
        .1622 .1419  .0574 .1640  .2267 .1374  .0518 .1652  .2257 .1383
        .1407 .1632  .0032 .1555  .1144 .1597  .0095 .1550
        .0625 .2088  .4674 .2930  .0529 .1969
        .0637 .2272  .5951 .3210
        .0535 .2131
    """,
    "esnli": """
        .1434 .1649  .1645 .1798  .2214 .1431  .1600 .1720  .1796 .2004
        .1529 .1588  .0925 .1645  .1104 .1596  .0593 .1710
        .0955 .1801  .3932 .2588  .0700 .1829
        .1181 .2120  .5554 .3576
        .0851 .2108
    """,
}
_TABLE_6 = {  # BiLSTM; attention is what it pools with
    "imdb": """
        .2014 .0790  .2188 .0815  .2494 .1028  .2209 .0834  .2309 .1219
        .6538 .1557  .5854 .1495  .6486 .1544  .5584 .1609
        .7331 .1155  .9409 .0504  .6994 .1342
        .7378 .1192  .8593 .1453
        .7021 .1366
    """,
    "sst": """
        .1326 .2372  .1093 .2554  .1372 .2575  .1101 .2534  .1400 .2672
        .4968 .2739  .4734 .2669  .4962 .2751  .4422 .2704
        .8683 .1032  .9707 .0382  .8063 .1561
        .8682 .1068  .8729 .1442
        .8056 .1566
    """,
    "mnli": """
        .1958 .1496  .2523 .1654  .2549 .1570  .2473 .1651  .2370 .1550
        .3281 .1417  .2444 .1452  .3187 .1398  .2269 .1495
        .4984 .1561  .8138 .1219  .4021 .1690
        .4987 .1732  .6208 .2175
        .4015 .1757
    """,
    "quora": """
        .0363 .2243  .0143 .2019  .0894 .2084  .0182 .2060  .1017 .2311
        .2099 .1943  .1900 .1887  .2037 .1939  .1670 .2036
        .2906 .2374  .7420 .2089  .2290 .2343
        .3158 .2473  .6179 .3241
        .2433 .2417
    """,
    "esnli": """
        .2198 .1761  .2566 .1748  .3158 .1555  .2517 .1782  .2938 .1556
        .2673 .1650  .1676 .1640  .2481 .1688  .1566 .1682
        .2461 .1738  .6535 .1848  .2165 .1800
        .2557 .1937  .5791 .2748
        .2219 .1927
    """,
}

# Test accuracy, mean and standard deviation over seeds: uniform, then softmax.
_TABLE_3 = {
    "BiLSTM": {
        "mnli": ".659 .001  .667 .004",
        "quora": ".829 .001  .830 .001",
        "esnli": ".804 .004  .807 .002",
        "imdb": ".874 .011  .872 .014",
        "sst": ".823 .008  .826 .011",
    },
    "transformer": {
        "mnli": ".599 .002  .779 .002",
        "quora": ".832 .001  .888 .001",
        "esnli": ".770 .005  .871 .001",
        "imdb": ".879 .003  .890 .005",
        "sst": ".823 .004  .842 .003",
    },
}

# Mean τ-b between attention flow and the additive methods, in the order of ADDITIVE; IMDb's rows were too long for it.
_TABLE_4 = {
    "mnli": ".1326 .1251 .2159 .1227 .2148",
    "quora": ".0853 .2426 .0367 .0241 .2319",
    "esnli": ".0844 .0753 .2178 .0571 .2149",
    "sst": ".1795 .0689 .1286 .0811 .1202",
}


def _by_pair(text: str, place: int) -> dict[tuple[str, str], float]:
    return dict(zip(PAIRS, map(float, text.split()[place::2]), strict=True))


_TABLES = {"transformer": _TABLE_5, "BiLSTM": _TABLE_6}
MEANS = {model: {task: _by_pair(text, 0) for task, text in table.items()} for model, table in _TABLES.items()}
SPREADS = {model: {task: _by_pair(text, 1) for task, text in table.items()} for model, table in _TABLES.items()}
FLOW = {task: dict(zip(ADDITIVE, map(float, text.split()), strict=True)) for task, text in _TABLE_4.items()}
ACCURACY = {  # by model, task and kind of attention: mean, standard deviation
    model: {
        task: {"uniform": tuple(map(float, text.split()[:2])), "learned": tuple(map(float, text.split()[2:]))}
        for task, text in table.items()
    }
    for model, table in _TABLE_3.items()
}
