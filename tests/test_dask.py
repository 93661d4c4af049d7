"""Dask collections on the local schedulers: the answer in memory, whatever the chunks."""

from __future__ import annotations

from math import nan

import numpy as np
import pandas as pd
import pytest
from support import is_dask

from polysharp import InputError, SparsePolynomialRegressor, TooLargeError, scan, verify
from polysharp.synthetic import make_sparse_polynomial

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")

# Dask calls pandas in a way that the newest pandas warns about.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")

NAMES = ["speed", "mass", "slope", "wind", "rain"]
N = 900


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def make_rows(seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5)) + rng.uniform(-2, 2, 5)
    y = 40 + 2 * X[:, 0] ** 2 * X[:, 1] - X[:, 2] * X[:, 3] + 0.3 * rng.standard_normal(n)
    weights = rng.uniform(0, 3, n)
    weights[::7] = 0.0
    return X, y, weights


ROWS = make_rows()


def model(**options):
    return SparsePolynomialRegressor(**{"degree": 3, "max_terms": 4, "gamma": 0.1, **options})


def assert_same(found, expected):
    assert found.polynomial_.monomials == expected.polynomial_.monomials
    np.testing.assert_allclose(
        found.polynomial_.coefficients, expected.polynomial_.coefficients, rtol=1e-9
    )
    assert found.intercept_ == pytest.approx(expected.intercept_, rel=1e-9, abs=1e-9)
    assert found.gamma_ == pytest.approx(expected.gamma_, rel=1e-12)
    assert found.solution_.objective == pytest.approx(expected.solution_.objective, rel=1e-9)
    assert found.solution_.status is expected.solution_.status
    assert found.solution_.scope == expected.solution_.scope


OPTIONS = [
    {},
    {"center": True},
    {"scale": False},
    {"fit_intercept": False},
    {"gamma": "auto"},
    {"n_candidates": 4},
    {"n_candidates": 4, "fit_intercept": False},
    {"max_inputs": 3, "exclude_inputs": [4], "heredity": "weak"},
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_fit_is_the_one_in_memory(options, weighted):
    X, y, v = ROWS
    v = v if weighted else None
    expected = model(**options).fit(X, y, v)
    weights = None if v is None else da.from_array(v, chunks=250)
    found = model(**options).fit(
        da.from_array(X, chunks=(200, 2)), da.from_array(y, chunks=300), weights
    )
    assert_same(found, expected)
    if expected.ranking_ is not None:
        np.testing.assert_allclose(found.ranking_.scores, expected.ranking_.scores, rtol=1e-6)


CHUNKS = [(N,), (1,) * 5 + (N - 5,), (0, 400, 0, 0, 500, 0), (300, 300, 300), tuple([30] * 30)]


@pytest.mark.parametrize("chunks", CHUNKS, ids=lambda c: f"{len(c)}-blocks")
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_chunks_do_not_matter(chunks, known):
    X, y, v = ROWS
    table = da.from_array(X, chunks=(chunks, (5,)))
    column, weights = (da.from_array(a, chunks=(chunks,)) for a in (y, v))
    if not known:
        for a in (table, column, weights):
            a._chunks = (tuple(nan for _ in chunks), *a._chunks[1:])
    assert_same(model().fit(table, column, weights), model().fit(X, y, v))


def frames(parts=4, **columns):
    X, y, v = ROWS
    table = pd.DataFrame(X, columns=NAMES).assign(power=y, trust=v, **columns)
    return table, dd.from_pandas(table, npartitions=parts)


def test_data_frames_keep_their_names():
    table, frame = frames()
    expected = model().fit(table[NAMES], table["power"], table["trust"])
    found = model().fit(frame[NAMES], frame["power"], frame["trust"])
    assert_same(found, expected)
    assert str(found.polynomial_) == str(expected.polynomial_)
    assert found.feature_names_in_.tolist() == NAMES


def test_empty_partitions_and_a_computed_response():
    table, frame = frames(6)
    half = frame[frame["speed"] > table["speed"].median()]
    rest = table[table["speed"] > table["speed"].median()]
    far = dd.concat([half[half["mass"] > 1e9], half])
    assert far.map_partitions(len).compute().min() == 0
    found = model().fit(far[NAMES], 2 * far["power"] + far["mass"])
    assert_same(found, model().fit(rest[NAMES], 2 * rest["power"] + rest["mass"]))


def test_a_data_frame_with_a_response_of_unknown_chunks():
    table, frame = frames(3)
    column = frame["power"].to_dask_array()
    assert_same(
        model().fit(frame[NAMES], column), model().fit(table[NAMES], table["power"].to_numpy())
    )


def test_integers_flags_and_a_response_in_memory():
    X, y, _ = ROWS
    whole = np.round(3 * X).astype(np.int32)
    assert_same(model().fit(da.from_array(whole, chunks=100), y), model().fit(whole, y))


def test_a_constant_response_and_a_constant_input():
    X = ROWS[0].copy()
    X[:, 1] = 0.1
    y = np.full(N, 0.1)
    found = model(center=True).fit(da.from_array(X, chunks=70), da.from_array(y, chunks=70))
    assert found.solution_.objective == 0.0
    assert found.intercept_ == 0.1


@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}], ids=str)
def test_every_input_is_priced_by_blocks(options):
    data = make_sparse_polynomial(120, 36, 3, 4, 4, 20.0, random_state=3)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 120)
    settings = {"max_inputs": 4, "n_candidates": None, "gamma": 0.01, **options}
    expected = model(**settings).fit(data.X, data.y, weights)
    found = model(**settings).fit(da.from_array(data.X, chunks=(50, 36)), data.y, weights)
    assert_same(found, expected)
    assert found.solution_.scope == "all-inputs"
    assert found.solution_.bound == pytest.approx(expected.solution_.bound, rel=1e-6)
    assert found.solution_.counters == expected.solution_.counters


def test_the_triage_of_many_inputs_ranks_row_blocks():
    data = make_sparse_polynomial(1500, 60, 3, 4, 6, 20.0, random_state=1)
    found = model(max_terms=6, n_candidates=8, engine="local-search").fit(
        da.from_array(data.X, chunks=(400, 60)), data.y
    )
    assert set(data.inputs) <= set(found.kept_inputs_.tolist())
    assert sorted(found.polynomial_.monomials) == sorted(data.monomials)
    assert found.solution_.scope == "kept-inputs"


# Predictions


def test_predictions_of_arrays_are_lazy_arrays():
    X, y, _ = ROWS
    fitted = model().fit(X, y)
    found = fitted.predict(da.from_array(X, chunks=(200, 3)))
    assert is_dask(found)
    assert (found.dtype, found.chunks) == (np.float64, ((200, 200, 200, 200, 100),))
    np.testing.assert_allclose(found.compute(), fitted.predict(X), rtol=1e-12)


def test_predictions_of_data_frames_are_lazy_series():
    table, frame = frames()
    fitted = model().fit(table[NAMES], table["power"])
    found = fitted.predict(frame[NAMES])
    assert is_dask(found)
    assert (found.name, found.dtype) == ("power", np.float64)
    answer = found.compute()
    assert answer.index.equals(table.index)
    np.testing.assert_allclose(answer, fitted.predict(table[NAMES]), rtol=1e-12)


def test_predictions_check_names_and_values():
    table, frame = frames(3)
    fitted = model().fit(table[NAMES], table["power"])
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame[NAMES[::-1]])
    gap = frame[NAMES].map_partitions(_with_gap, "wind", 5, meta=frame[NAMES]._meta)
    with pytest.raises(InputError, match=r"block 2: X must .* nan in row 5 of column 'wind'"):
        fitted.predict(gap).compute()


def _with_gap(part, column, row, partition_info=None):
    if partition_info and partition_info["number"] == 2:
        part = part.copy()
        part.iloc[row, part.columns.get_loc(column)] = np.nan
    return part


# Refusals


def test_nan_in_block_57_is_found():
    X, y, _ = ROWS
    X = X.copy()
    X[574, 3] = np.nan
    X[899, 1] = np.inf
    with pytest.raises(
        InputError, match=r"^block 57: X must have .*, got nan in row 4 of column 'x3'$"
    ):
        model().fit(da.from_array(X, chunks=10), y)


def refused(message, X=None, y=None, v=None, **options):
    rows = [da.from_array(a, chunks=300) for a in ROWS]
    X, y = rows[0] if X is None else X, rows[1] if y is None else y
    with pytest.raises(InputError, match=message):
        model(**options).fit(X, y, v)


def test_bad_rows_are_refused():
    X, y, v = (a.copy() for a in ROWS)
    y[700], v[400] = np.inf, -1.0
    refused(r"^block 2: y must have neither NaN nor inf, got inf in row 100$", y=da.from_array(y))
    refused(r"^block 1: sample_weight must not be negative, got -1$", v=da.from_array(v))
    refused("sample_weight must have a positive value", v=np.zeros(N))
    refused("at least 2 rows of positive weight, got 1", v=np.eye(N)[0])
    refused("at least 2 rows", X=da.from_array(X[:0]), y=da.from_array(y[:0]))
    refused("powers up to degree=3", X=da.from_array(1e60 * X))
    assert X.shape == (N, 5)


def test_shapes_that_disagree_are_refused():
    y = ROWS[1]
    refused("y has 800 values, X has 900 rows", y=da.from_array(y[:800]))
    refused("y has 800 values, X has 900 rows", y=y[:800])
    refused("sample_weight has 3 values, X has 900 rows", v=np.ones(3))
    refused("y must have one dimension, got 2", y=da.from_array(y[:, None]))
    refused("two-dimensional Dask array", X=da.from_array(y))
    column = da.from_array(y, chunks=450)
    column._chunks = ((nan, nan),)
    refused(r"y must be cut into the 3 blocks of X, got 2", y=column)
    uneven = da.from_array(y, chunks=((300, 250, 350),))
    uneven._chunks = ((nan, nan, nan),)
    refused("^block 1: y has 250 values, X has 300 rows$", y=uneven)


def test_data_frames_that_disagree_are_refused():
    table, frame = frames(3, town=["Rye"] * N)
    refused("column 'town' of type", X=frame[[*NAMES, "town"]], y=frame["power"])
    refused("in the partitions of X, whose sizes are unknown", X=frame[NAMES], y=table["power"])
    fewer = frame["power"].repartition(npartitions=2)
    refused("y must be cut into the 3 blocks of X, got 2", X=frame[NAMES], y=fewer)
    refused("two-dimensional Dask array", X=dask.delayed(1), y=frame["power"])
    mixed = frame[NAMES].astype({"rain": object})
    words = mixed.map_partitions(_with_word, meta=mixed._meta)
    refused(r"block 0: X must hold numbers, got text in column 'rain'", X=words, y=frame["power"])


def _with_word(part):
    part = part.copy()
    part.iloc[2, 4] = "wet"
    return part


def test_what_the_graph_raises_is_one_sentence():
    X, y, _ = ROWS
    broken = da.from_array(X, chunks=300).map_blocks(_break, dtype=float, meta=np.empty((0, 0)))
    refused("a block cannot be read: the disk is wet", X=broken, y=y)


def _break(part):
    raise ValueError("the disk is wet\nand more")


def test_what_is_not_offered_is_said():
    refused("device must be None or 'cpu'", device="cuda")
    wide = da.from_array(np.zeros((10, 60)))
    with pytest.raises(TooLargeError, match="at most 8192 monomials for Dask"):
        model(n_candidates=50).fit(wide + np.arange(60.0), da.from_array(np.arange(10.0)))


def test_estimators_that_need_all_rows_say_so():
    from polysharp import PolynomialKernelRegressor

    X, y, _ = ROWS
    with pytest.raises(InputError, match="X must be in memory for PolynomialKernelRegressor"):
        PolynomialKernelRegressor().fit(da.from_array(X), y)


def test_a_proof_is_checked_on_rows_in_memory():
    X, y, v = ROWS
    found = model().fit(da.from_array(X, chunks=200), y, v)
    assert verify(found.solution_.proof, X, y, v).valid


# Progress and interruption


def test_blocks_are_counted(capsys):
    X, y, _ = ROWS
    model(verbose=1).fit(da.from_array(X, chunks=100), y)
    shown = capsys.readouterr().err
    assert "checking rows: 100 %" in shown
    assert "moments: 100 %" in shown


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
def test_ctrl_c_ends_the_pass(scheduler):
    X, y, _ = ROWS
    table = da.from_array(X, chunks=100).map_blocks(_interrupt, dtype=float, meta=np.empty((0, 0)))
    with dask.config.set(scheduler=scheduler), pytest.raises(KeyboardInterrupt):
        model().fit(table, y)


def _interrupt(part):
    raise KeyboardInterrupt


def test_the_threads_of_this_machine():
    X, y, v = ROWS
    with dask.config.set(scheduler="threads"):
        found = model().fit(da.from_array(X, chunks=70), y, v)
    assert_same(found, model().fit(X, y, v))


# Files


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    table, _ = frames(town=["Rye"] * N)
    place = tmp_path_factory.mktemp("tables")
    for part in range(3):
        rows = table[part * 300 : (part + 1) * 300]
        rows.to_parquet(place / f"part{part}.parquet", index=False)
        rows.to_csv(place / f"part{part}.csv", index=False)
        rows.to_csv(place / f"part{part}.csv.gz", index=False)
    return place


@pytest.mark.parametrize("pattern", ["*.parquet", "part?.csv", "*.csv.gz"])
def test_files_are_fitted_by_a_glob(folder, pattern):
    table, _ = frames()
    expected = model().fit(table[NAMES], table["power"], table["trust"])
    opened = scan(str(folder / pattern), "power", weights="trust")
    assert opened.X.columns.tolist() == NAMES
    found = model().fit(*opened)
    assert_same(found, expected)
    assert found.polynomial_.response == "power"


def test_files_are_fitted_by_a_folder_and_by_columns(tmp_path):
    table, _ = frames()
    (tmp_path / "2026").mkdir()
    table[:400].to_parquet(tmp_path / "2026" / "a.parquet")
    table[400:].to_parquet(tmp_path / "b.pq")
    found = model().fit(*scan(tmp_path, "power", inputs=NAMES[:4]))
    assert_same(found, model().fit(table[NAMES[:4]], table["power"]))


def test_options_of_text_may_hold_types(tmp_path):
    frame = pd.DataFrame({"id": [1, 2, 3], "x": [1.0, 2.0, 4.0], "y": [1.0, 2.0, 3.5]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    opened = scan(tmp_path, "y", csv_options={"dtype": {"id": "str"}})
    assert list(opened.X.columns) == ["x"]
    for options, said in (({"nrows": 2}, "nrows"), ({"dtype": "str"}, "dtype as a mapping")):
        with pytest.raises(InputError, match=said):
            scan(tmp_path, "y", csv_options=options)


def test_whole_numbers_with_fractions_later_on(tmp_path):
    x = np.concatenate([np.arange(2000.0), np.arange(1000) + 0.5])
    pd.DataFrame({"x": x, "y": 3 * x + 1}).astype(object).to_csv(tmp_path / "a.csv", index=False)
    text = (tmp_path / "a.csv").read_text()
    (tmp_path / "a.csv").write_text(text.replace(".0,", ",").replace(".0\n", "\n"))
    found = model(degree=1, gamma=1e4, gap_tol=1e-3).fit(*scan(tmp_path, "y"))
    assert found.polynomial_.coefficients[0] == pytest.approx(3.0, rel=1e-6)


def test_files_that_cannot_be_used_are_refused(folder, tmp_path):
    for pattern, target, message in [
        (tmp_path, "power", "must hold Parquet or CSV files, found none"),
        (folder / "*.xyz", "power", "found none"),
        (folder, "power", "files of one kind, .parquet or .csv, found CSV, Parquet"),
        (folder / "*.parquet", "powr", "has no column 'powr'; did you mean 'power'?"),
    ]:
        with pytest.raises(InputError, match=message.replace("?", r"\?")):
            scan(pattern, target)
    (tmp_path / "a.csv").write_text("y,town\n1,Rye\n2,Ely\n")
    with pytest.raises(InputError, match="no column of numbers besides 'y'"):
        scan(tmp_path, "y")
    numbers = "\n".join(f"{t},{t}" for t in range(2000))
    (tmp_path / "a.csv").write_text(f"x,y\n{numbers}\nwet,3\n")
    with pytest.raises(InputError, match="a block cannot be read: could not convert string"):
        model().fit(*scan(tmp_path, "y"))
    (tmp_path / "a.csv").write_text(f"x,y\n{numbers}\n")
    (tmp_path / "b.csv").write_text("z,y\n1,2\n")
    with pytest.raises(InputError, match=r"a block cannot be read: .*'x'"):
        model().fit(*scan(tmp_path, "y"))
