"""Data in any form."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from robustard import JointARD
from scipy import sparse

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")


def linear() -> JointARD:
    return JointARD(features="linear")


class OnlyArrow:
    """A table of a library that nobody knows, by the Arrow interface."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_arrays_of_any_layout_give_the_same_fit(line):
    X, y = line
    expected = linear().fit(X, y)
    frozen = X.copy()
    frozen.setflags(write=False)
    strided = np.repeat(X, 2, axis=1)[:, ::2]
    for other in [np.asfortranarray(X), X.tolist(), frozen, strided, X.astype(object)]:
        model = linear().fit(other, y)
        assert (model.coef_ == expected.coef_).all()
        assert (model.predict(other) == expected.predict(X)).all()
    single = linear().fit(X.astype(np.float32), y.astype(np.float32))
    np.testing.assert_allclose(single.coef_, expected.coef_, atol=1e-4)
    whole = linear().fit(np.rint(X * 10).astype(np.int64), y)
    assert whole.coef_.shape == (5,)


def test_sparse_matrices(line):
    X, y = line
    expected = linear().fit(X, y)
    for form in [sparse.csr_matrix, sparse.csc_array, sparse.coo_array]:
        assert (linear().fit(form(X), y).coef_ == expected.coef_).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linear().fit(sparse.csr_array(X), y)
    from robustard import _data

    before, _data.LARGE_DENSE = _data.LARGE_DENSE, 1000
    try:
        with pytest.warns(UserWarning, match="dense"):
            linear().fit(sparse.csr_array(X), y)
    finally:
        _data.LARGE_DENSE = before


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "arrow"])
def test_data_frames_keep_their_names(kind, line):
    X, y = line
    names = ["size", "age", "a b", "ünï", "last"]
    table = pandas.DataFrame(X, columns=names)
    X_frame = {
        "pandas": table,
        "polars": polars.DataFrame(X, schema=names),
        "pyarrow": pyarrow.table({name: X[:, k] for k, name in enumerate(names)}),
        "arrow": OnlyArrow(pyarrow.table({name: X[:, k] for k, name in enumerate(names)})),
    }[kind]
    model = linear().fit(X_frame, y)
    expected = linear().fit(X, y)
    assert (model.coef_ == expected.coef_).all()
    assert model.coef_names_ == names and list(model.feature_names_in_) == names
    assert (model.predict(X_frame) == expected.predict(X)).all()
    influence = model.influence()
    wanted = {"pandas": pandas.DataFrame, "polars": polars.DataFrame}.get(kind, pyarrow.Table)
    assert isinstance(influence, wanted)
    assert isinstance(model.find_label_issues(), wanted)


def test_pandas_index_is_kept_and_order_is_checked(line):
    X, y = line
    table = pandas.DataFrame(X, columns=list("abcde"), index=[f"row {k}" for k in range(150)])
    model = linear().fit(table, pandas.Series(y, name="price", index=table.index))
    assert list(model.influence().index) == list(table.index)
    assert model._fitted.target == "price"
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[list("bacde")])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table.rename(columns={"a": "z"}))
    with pytest.warns(UserWarning, match="feature names"):
        by_place = model.predict(X)
    assert (by_place == model.predict(table)).all()


def categories(n: int = 120):
    rng = np.random.default_rng(5)
    city = rng.choice(["Oslo", "Rome", "Kyiv"], n)
    size = rng.normal(size=n)
    y = 2 * size + np.select([city == "Oslo", city == "Rome"], [1.0, 3.0], 0.0) + 0.1 * rng.normal(size=n)
    return city, size, y


@pytest.mark.parametrize(
    "kind", ["object", "category", "string", "polars", "polars categorical", "pyarrow", "dictionary"]
)
def test_text_columns_are_categories(kind):
    city, size, y = categories()
    columns = {"city": city, "size": size}
    X = {
        "object": lambda: pandas.DataFrame(columns).astype({"city": object}),
        "category": lambda: pandas.DataFrame(columns).astype({"city": "category"}),
        "string": lambda: pandas.DataFrame(columns).astype({"city": "string"}),
        "polars": lambda: polars.DataFrame(columns),
        "polars categorical": lambda: polars.DataFrame(columns).cast({"city": polars.Categorical}),
        "pyarrow": lambda: pyarrow.table(columns),
        "dictionary": lambda: pyarrow.table({"city": pyarrow.array(city).dictionary_encode(), "size": size}),
    }[kind]()
    model = linear().fit(X, y)
    assert model.coef_names_ == ["city=Kyiv", "city=Oslo", "city=Rome", "city=(other)", "size"]
    effect = dict(zip(model.coef_names_, model.coef_))
    np.testing.assert_allclose(effect["city=Rome"] - effect["city=Oslo"], 2.0, atol=0.1)
    assert model.n_features_in_ == 2
    assert model.score(X, y) > 0.99


def test_kinds_of_columns():
    city, size, y = categories()
    X = pandas.DataFrame(
        {
            "size": pandas.array(size, dtype="Float64"),
            "flag": city == "Oslo",
            "zone": pandas.Categorical(np.select([city == "Oslo", city == "Rome"], [7, 8], 9)),
            "day": pandas.date_range("2024-01-01", periods=len(y)),
            "note": [f"text {k}" for k in range(len(y))],
            "mixed": [None if k == 3 else float(k % 5) for k in range(len(y))],
        }
    )
    with pytest.raises(ValueError, match="mixed"):
        linear().fit(X, y)
    with pytest.warns(UserWarning, match="'day' is left out: it holds dates"):
        model = JointARD(features="linear", missing="impute").fit(X, y)
    assert set(model.left_out_) == {"day", "note"}
    assert {"size", "flag", "zone=7", "zone=8", "zone=9", "mixed", "mixed (missing)"} <= set(model.coef_names_)
    assert not any(name.startswith(("day", "note")) for name in model.coef_names_)
    assert np.isfinite(model.predict(X)).all()
    # Values that were not there before are none of the known ones.
    new = X.assign(zone=pandas.Categorical([99] * len(y)))
    with pytest.warns(UserWarning, match="'99'"):
        assert np.isfinite(model.predict(new)).all()


def test_numbers_can_be_categories(line):
    X, y = line
    X = X.copy()
    X[:, 2] = np.arange(150) % 3
    by_place = JointARD(features="linear", categorical=[2]).fit(X, y)
    assert by_place.coef_names_ == ["x0", "x1", "x2=0", "x2=1", "x2=2", "x2=(other)", "x3", "x4"]
    by_name = JointARD(features="linear", categorical=["c"]).fit(pandas.DataFrame(X, columns=list("abcde")), y)
    assert (by_name.coef_ == by_place.coef_).all()


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_texts_of_categories_are_taken_as_they_are(kind):
    rng = np.random.default_rng(4)
    code = rng.choice(["1", "01", "NA"], 120)
    y = np.select([code == "1", code == "01"], [1.0, 2.0], 5.0) + 0.01 * rng.normal(size=120)
    x = rng.normal(size=120)
    X = {
        "pandas": lambda: pandas.DataFrame({"code": pandas.Categorical(code), "x": x}),
        "polars": lambda: polars.DataFrame({"code": code, "x": x}).cast({"code": polars.Categorical}),
        "pyarrow": lambda: pyarrow.table({"code": pyarrow.array(code).dictionary_encode(), "x": x}),
    }[kind]()
    model = linear().fit(X, y)
    assert model.coef_names_ == ["code=01", "code=1", "code=NA", "code=(other)", "x"]
    assert model.score(X, y) > 0.99


def test_names_may_collide(line):
    X, y = line
    table = pandas.DataFrame(X, columns=["y", "sample_weight", "y_", "a", "b"])
    model = linear().fit(table, y, sample_weight=1.0 + (np.arange(150) % 2))
    assert model.coef_names_ == list(table.columns)
    assert model.predict(table).shape == (150,)


def test_subclasses_and_lazy_frames(line):
    X, y = line

    class Own(pandas.DataFrame):
        pass

    table = Own(X, columns=list("abcde"), index=range(1000, 1150)).assign(city=list("xyz") * 50)
    model = linear().fit(Own(table), y)
    assert "city=x" in model.coef_names_ and model.influence().index[0] == 1000
    with pytest.raises(ValueError, match="collect"):
        linear().fit(polars.DataFrame(X).lazy(), y)


def test_names_may_not_repeat(line):
    X, y = line
    with pytest.raises(ValueError, match="'a'"):
        linear().fit(pandas.DataFrame(X, columns=["a", "b", "a", "c", "d"]), y)


def test_nothing_that_is_given_is_changed(line):
    X, y = line
    before = X.copy(), y.copy()
    JointARD(features="smooth").fit(X, y).predict(X)
    assert (before[0] == X).all() and (y == before[1]).all()


def test_masked_values_are_missing(line):
    X, y = line
    masked = np.ma.masked_array(X.copy(), mask=np.zeros(X.shape, dtype=bool))
    assert (linear().fit(masked, y).predict(masked) == linear().fit(X, y).predict(X)).all()
    # What is under a mask is no data.
    masked[3, 0] = 1e6
    masked[3, 0] = np.ma.masked
    with pytest.raises(ValueError, match="NaN"):
        linear().fit(masked, y)
    with pytest.warns(UserWarning, match="1 row"):
        dropped = JointARD(features="linear", missing="drop").fit(masked, y)
    others = np.arange(len(y)) != 3
    assert np.allclose(dropped.coef_, linear().fit(X[others], y[others]).coef_, rtol=1e-6)
    targets = np.ma.masked_array(y.copy(), mask=~others)
    with pytest.raises(ValueError, match="NaN"):
        linear().fit(X, targets)
    with pytest.raises(ValueError, match="NaN"):
        dropped.set_params(missing="error").fit(X, y).predict(masked)
