"""The cost model: XGBoost on what the analytic draft gets wrong, log(cycles) - log(draft)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sim.own import without

Floats = npt.NDArray[np.float64]
MIN_ROWS = 8  # below this the draft alone is the better guess


class CostModel:
    """Predicts cycles of points from their features and drafts.

    Args:
        seed: seed of the trees; the same data and seed give the same model.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._booster: Any = None

    def fit(self, features: npt.NDArray[np.float32], drafts: Floats, cycles: Floats) -> None:
        """Learns from measured points; with fewer than a handful the draft stays the prediction.

        Args:
            features: shape (n, f).
            drafts: estimated cycles, shape (n,).
            cycles: measured cycles, shape (n,).
        """
        if len(cycles) < MIN_ROWS:
            self._booster = None
            return
        try:
            # Without the first of these it does not look for the second.
            with without("xgboost.plotting", "xgboost.sklearn"):
                import xgboost as xgb
        except ImportError:  # a version that cannot do without
            import xgboost as xgb

        residual = np.log(cycles) - np.log(drafts)
        # One thread: with data of this size more threads only spin against each other.
        params = {
            "objective": "reg:squarederror", "max_depth": 5, "eta": 0.15, "min_child_weight": 1.0, "lambda": 1.0,
            "subsample": 0.9, "colsample_bytree": 0.8, "tree_method": "hist", "nthread": 1, "seed": self.seed,
            "verbosity": 0, "base_score": float(np.mean(residual)),
        }
        self._booster = xgb.train(params, xgb.DMatrix(features, label=residual, nthread=1), num_boost_round=80)

    def predict(self, features: npt.NDArray[np.float32], drafts: Floats) -> Floats:
        """Estimated cycles, shape (n,)."""
        if self._booster is None:
            return np.asarray(drafts, dtype=np.float64)
        residual = self._booster.inplace_predict(features)
        return np.asarray(drafts * np.exp(residual), dtype=np.float64)
