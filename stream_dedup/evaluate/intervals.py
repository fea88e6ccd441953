"""95 % confidence intervals of a share that was measured on few labels.

In: a share, and the number of trials or their weights. Out: Wilson's score interval. Why not a bootstrap: if all labels
agree, every resample agrees too, and two labels would seem to prove a precision of 1.000 to 1.000. Wilson's interval
has the right coverage on average for few trials and for shares near 0 and 1 (Wilson 1927; Brown, Cai and DasGupta 2001,
section 4).
"""

import math

import numpy as np
from numpy.typing import NDArray

Interval = tuple[float, float]
# The normal distribution's quantile for 95 %.
_Z = 1.959963984540054


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
