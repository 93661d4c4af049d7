"""The command line on folders and patterns, by threads and by a cluster."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from polysharp.cli import main

dask = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

# Dask calls pandas in a way that the newest pandas warns about.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    place = tmp_path / "rides"
    place.mkdir()
    for part in range(3):
        X = rng.standard_normal((100, 2))
        y = 2 + 3 * X[:, 0] ** 2 - X[:, 1] + 0.01 * rng.standard_normal(100)
        table = pd.DataFrame({"speed": X[:, 0], "wind": X[:, 1], "power": y, "town": "Rye"})
        table.to_csv(place / f"{part}.csv", index=False)
    return place


def run(capsys, *words):
    code = main([str(word) for word in words])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


FIT = ("--target", "power", "--degree", 2, "--max-terms", 2, "--gamma", 100, "--quiet")


def test_a_folder_is_fitted_in_blocks(capsys, folder, tmp_path):
    model = tmp_path / "model.json"
    code, out, err = run(capsys, "fit", folder, *FIT, "--require-proof", "--output", model)
    assert code == 0
    assert "3 blocks, 2 inputs, target power" in out
    assert "power = " in out
    assert "speed^2" in out
    assert "inputs 'speed', 'wind'" in err
    assert json.loads(model.read_text())


def test_a_pattern_with_validation(capsys, folder):
    words = ("--target", "power", "--degree", "1,2", "--max-terms", 3, "--cv", 3, "--quiet")
    code, out, _ = run(capsys, "fit", folder / "*.csv", *words)
    assert code == 0
    assert "chosen by cross-validation: degree 2" in out
    assert "mean of 3 splits" in out


def test_a_cluster_by_its_address(capsys, folder):
    with distributed.LocalCluster(
        n_workers=1, processes=False, host="127.0.0.1", protocol="tcp://", dashboard_address=":0"
    ) as cluster:
        address = cluster.scheduler_address
        code, out, _ = run(capsys, "fit", folder, *FIT, "--scheduler", address)
    assert code == 0
    assert "speed^2" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--holdout", 0.2), "--holdout needs the rows in memory"),
        (("--inputs", "sped"), "has no column 'sped'; did you mean 'speed'?"),
        (("--target", "power,speed"), "files that are read in blocks have one target"),
        (("--scheduler", "tcp://127.0.0.1:9"), "no Dask scheduler answers"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(capsys, folder, words, message):
    import dask as base

    with base.config.set({"polysharp.wait-for-workers": 0.3}):
        code, _, err = run(capsys, "fit", folder, *FIT, *words)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
