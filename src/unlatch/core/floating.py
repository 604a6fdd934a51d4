"""Floating point as our numbers need it, whatever the caller has set.

A probability that underflows to zero is no error. With ``np.seterr(all="raise")`` it would be one, so every public
door that computes with NumPy is decorated with `own_errstate`.
"""

from __future__ import annotations

import numpy as np

__all__ = ["own_errstate"]

own_errstate = np.errstate(divide="warn", over="warn", under="ignore", invalid="warn")
"""NumPy's own defaults, as a decorator: results do not depend on what the caller set."""
