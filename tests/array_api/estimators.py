"""scikit-learn's PCA and Ridge on divided arrays, by its array API dispatch, as one job.

    SCIPY_ARRAY_API=1 skerry run -n 4 python tests/array_api/estimators.py

Rank 0 prints a line of JSON an estimator: name, error (the largest difference from the fit to
NumPy's arrays), gathers (of whole divided arrays, by the counters), bytes_read.
"""

import json

import numpy as np
from sklearn import config_context
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge

import skerry as sk
import skerry.xp as xp

ROWS, COLUMNS = 4000, 12
QR = {"power_iteration_normalizer": "QR", "random_state": 0}
FITS = {
    "PCA, full": (PCA(4, svd_solver="full"), False),
    "PCA, covariance": (PCA(4, svd_solver="covariance_eigh"), False),
    "PCA, randomized": (PCA(4, svd_solver="randomized", **QR), False),
    "Ridge": (Ridge(alpha=0.5, solver="svd"), True),
}
FITTED = "components_ singular_values_ explained_variance_ mean_ coef_ intercept_".split()


def values(x):
    return x.numpy() if isinstance(x, xp.Array) else np.asarray(x)


def compare(estimator, data):
    expected = {}
    estimator.fit(*data)
    for name in FITTED:
        if hasattr(estimator, name):
            expected[name] = np.array(getattr(estimator, name))
    expected["applied"] = apply(estimator, data[0])
    divided = [xp.asarray(d) for d in data]
    before = xp.counters()
    with config_context(array_api_dispatch=True):
        estimator.fit(*divided)
        applied = apply(estimator, divided[0])
    moved = {name: count - before[name] for name, count in xp.counters().items()}
    assert isinstance(applied, xp.Array) and not applied.layout.whole, "the result was gathered"
    found = {name: getattr(estimator, name) for name in expected if name != "applied"}
    error = max(
        float(np.abs(values(value) - expected[name]).max())
        for name, value in {**found, "applied": applied}.items()
    )
    return {"error": error, "gathers": moved["gathers"], "bytes_read": moved["bytes_read"]}


def apply(estimator, x):
    return estimator.transform(x) if hasattr(estimator, "transform") else estimator.predict(x)


def main():
    sk.init()
    xp.options(check_calls=1, whole_bytes=16384)  # the data is divided
    generator = np.random.default_rng(1)
    x = generator.standard_normal((ROWS, COLUMNS)) @ generator.standard_normal((COLUMNS, COLUMNS))
    y = x @ generator.standard_normal(COLUMNS) + generator.standard_normal(ROWS)
    for name, (estimator, supervised) in FITS.items():
        row = {"name": name, **compare(estimator, (x, y) if supervised else (x,))}
        if sk.rank() == 0:
            print(json.dumps(row), flush=True)
    sk.finalize()


if __name__ == "__main__":
    main()
