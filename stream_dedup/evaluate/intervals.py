"""95 % confidence intervals of a share that was measured on few labels, or on trials that depend on each other.

Independent trials: Wilson's score interval, of a share and the number of trials or their weights. Why not a bootstrap:
if all labels agree, every resample agrees too, and two labels would seem to prove a precision of 1.000 to 1.000.
Wilson's interval has the right coverage on average for few trials and for shares near 0 and 1 (Wilson 1927; Brown, Cai
and DasGupta 2001, section 4).

Trials in clusters that depend on each other: the cluster bootstrap, which resamples whole clusters (Davison and Hinkley
1997, section 3.8). If all clusters agree, a bootstrap has no spread; then the exact binomial bound for the effective
number of clusters is used (Kish 1965). No interval is narrower than Wilson's for independent trials, because a few
clusters may agree by chance.
"""

import math
import warnings

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float]
DRAWS = 2000
"""Resamples of a bootstrap: the bounds then vary by 2 % of the width from seed to seed."""
_NONE = float("nan")
# The normal distribution's quantile for 95 %.
_Z = 1.959963984540054
_TAIL = 0.025
# Counts of clusters held at a time, 8 MB.
_BLOCK = 1_000_000


def wilson(share: float, trials: float) -> Interval:
    """Return Wilson's 95 % score interval; NaN without trials.

    >>> [round(bound, 3) for bound in wilson(1.0, 2)], [round(bound, 4) for bound in wilson(81 / 263, 263)]
    ([0.342, 1.0], [0.2553, 0.3662])
    """
    if not trials > 0 or math.isnan(share):
        return math.nan, math.nan
    spread = _Z**2 / trials
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread**2 / 4) / (1 + spread)
    # Shares of 0 and 1 have exact ends; the formula would leave rounding errors of 1e-17.
    return 0.0 if share == 0 else max(0.0, middle - half), 1.0 if share == 1 else min(1.0, middle + half)


def effective_size(weights: NDArray[np.float64]) -> float:
    """Return the effective sample size of weighted trials (Kish 1965); 0 without trials.

    >>> effective_size(np.array([2.0, 2.0, 2.0])), effective_size(np.array([8.0, 1.0, 1.0]))
    (3.0, 1.5151515151515151)
    """
    total = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / total if total else 0.0


def resample(sums: NDArray[np.float64], draws: int = DRAWS) -> NDArray[np.float64]:
    """Draw as many clusters as there are, with replacement, `draws` times; return the sums of each draw, (draws, c).

    sums: (clusters, c), the sums over each cluster. One seed: the same number of clusters gives the same draws.
    """
    clusters = len(sums)
    # Each cluster is drawn a multinomial number of times.
    random, chances = np.random.default_rng(1), np.full(clusters, 1 / clusters)
    step = max(_BLOCK // clusters, 1)
    return np.concatenate(
        [random.multinomial(clusters, chances, min(step, draws - start)) @ sums for start in range(0, draws, step)]
    )


def bootstrap(
    share: float, drawn: NDArray[np.float64], of_clusters: NDArray[np.float64], of_trials: NDArray[np.float64]
) -> Interval:
    """Return the 95 % interval of the cluster bootstrap; NaN with fewer than two clusters.

    drawn: the share in each resample; of_clusters, of_trials: the weights of each in the denominator of the share.
    """
    known = of_clusters[of_clusters > 0]
    if len(known) < 2:
        return _NONE, _NONE
    if share in (0.0, 1.0):
        far = 1.0 - _TAIL ** (1.0 / effective_size(known))
        return (0.0, far) if share == 0.0 else (1.0 - far, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a resample without a value
        low, high = np.nanpercentile(drawn, [100 * _TAIL, 100 * (1 - _TAIL)])
    least = wilson(share, effective_size(of_trials))
    return min(float(low), least[0]), max(float(high), least[1])
