"""The loader of the paper's real data: folder, cache, download, and what it refuses."""

from __future__ import annotations

import gzip
import io
import os
import threading
import zipfile
from dataclasses import replace
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from support import UCI_TABLES, UciFile, find_table, home

from polysharp.datasets import UCI_NAMES, load_uci
from polysharp.errors import DataError, InputError

REAL = os.environ.get("POLYSHARP_DATA")
MEANS = {  # of the response, as published
    "airfoil": 124.836,
    "concrete": 35.818,
    "energy_1": 22.307,
    "energy_2": 24.588,
    "wine_red": 5.636,
    "wine_white": 5.878,
    "music_1": 26.65,
    "music_2": 38.41,
}
TABLE = np.random.default_rng(0).standard_normal((7, 4)).round(3)
CSV = "a,b,c,d\n" + "\n".join(",".join(map(repr, row)) for row in TABLE.tolist()) + "\n"
VALUES = sha256(TABLE.astype("<f8").tobytes()).hexdigest()
PLAIN = UciFile("fake.csv.gz", "7/data.csv", (7, 4), (VALUES,))
ZIPPED = UciFile(
    "fake.csv.gz", "7/fake+data.zip", (7, 4), (VALUES,), member="x.txt", delimiter=";", header=False
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    home = tmp_path / "data"
    home.mkdir()
    monkeypatch.setenv("POLYSHARP_DATA", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return home


class Quiet(SimpleHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012  # shared by the requests of a test

    def do_GET(self):
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, *args):
        pass


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A server in UCI's place: the folder it serves and the paths it was asked for."""
    root = tmp_path / "served"
    (root / "7").mkdir(parents=True)
    Quiet.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr(home("ARCHIVE"), "ARCHIVE", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("POLYSHARP_DATA", raising=False)
    yield root / "7", Quiet.asked
    server.shutdown()
    thread.join()
    server.server_close()


def zipped(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/"), content)
    return out.getvalue()


def semicolons() -> bytes:
    return "\r\n".join(";".join(map(repr, row)) for row in TABLE.tolist()).encode()


@pytest.mark.parametrize("name", UCI_NAMES)
def test_records_from_a_folder(name, folder, monkeypatch):
    row = UCI_TABLES[name]
    table = np.arange(3.0 * row.file.shape[1]).reshape(3, -1)
    small = row._replace(file=replace(row.file, shape=table.shape))
    monkeypatch.setitem(UCI_TABLES, name, small)
    header = ",".join(f"c{i}" for i in range(table.shape[1]))
    text = header + "\n" + "\n".join(",".join(map(str, line)) for line in table)
    (folder / row.file.name).write_bytes(gzip.compress(text.encode()))
    data = load_uci(name)
    p = len(data.input_names)
    targets = table.shape[1] - p
    assert targets == (2 if name[-1] in "12" else 1)
    assert len(set(data.input_names)) == len(data.units) == p
    np.testing.assert_array_equal(data.X, table[:, :p])
    np.testing.assert_array_equal(data.y, table[:, -2 if name.endswith("_1") else -1])


def test_the_folder_comes_before_the_network(folder, served, monkeypatch):
    monkeypatch.setenv("POLYSHARP_DATA", str(folder))
    (folder / "fake.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    np.testing.assert_array_equal(find_table(PLAIN), TABLE)
    assert served[1] == []


def test_the_folders_checksums_are_kept(folder):
    content = gzip.compress(CSV.encode())
    (folder / "fake.csv.gz").write_bytes(content)
    sums = folder / "SHA256SUMS"
    sums.write_text(f"{sha256(content).hexdigest()}  fake.csv.gz\n")
    np.testing.assert_array_equal(find_table(PLAIN), TABLE)
    sums.write_text(f"{'0' * 64}  fake.csv.gz\n")
    with pytest.raises(DataError, match=r"fake.csv.gz does not have the checksum listed in"):
        find_table(PLAIN)


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(CSV.encode())[:-20]])
def test_a_damaged_file_in_the_folder_is_named(folder, content):
    (folder / PLAIN.name).write_bytes(content)
    with pytest.raises(DataError, match=r"fake\.csv\.gz must be a whole gzip file"):
        find_table(PLAIN)


def test_download_is_cached_and_checked(served):
    root, asked = served
    (root / "data.csv").write_text(CSV)
    np.testing.assert_array_equal(find_table(PLAIN), TABLE)
    np.testing.assert_array_equal(find_table(PLAIN), TABLE)
    assert asked == ["/7/data.csv"]
    PLAIN.cached.write_text(CSV.replace("1", "2"))  # a damaged cache is no worse than none
    np.testing.assert_array_equal(find_table(PLAIN), TABLE)
    assert asked == ["/7/data.csv"] * 2
    assert [path.name for path in PLAIN.cached.parent.iterdir()] == ["7-data.csv"]


def test_download_of_other_contents_is_refused(served):
    root, _ = served
    (root / "data.csv").write_text(CSV.replace("1", "2"))
    with pytest.raises(DataError, match="does not have the checksum of the published"):
        find_table(PLAIN)
    assert not PLAIN.cached.exists()


def test_a_checksum_of_the_bytes_counts_as_well(served):
    root, _ = served
    (root / "data.csv").write_text(CSV)
    known = replace(PLAIN, checksums=("0" * 64, sha256(CSV.encode()).hexdigest()))
    np.testing.assert_array_equal(find_table(known), TABLE)


@pytest.mark.parametrize(
    "content",
    [
        zipped(**{"x.txt": semicolons(), "names.txt": b"notes"}),
        zipped(**{"folder__x.txt": semicolons()}),
        zipped(**{"inner.zip": zipped(**{"deep__x.txt": semicolons()})}),
    ],
)
def test_members_of_zip_files(served, content):
    root, asked = served
    (root / "fake+data.zip").write_bytes(content)
    np.testing.assert_array_equal(find_table(ZIPPED), TABLE)
    assert asked == ["/7/fake+data.zip"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"<html>moved</html>", "is no zip file"),
        (zipped(**{"y.txt": b"1;2"}), "has no member x.txt"),
        (zipped(**{"x.txt": b"1;2\n3;4"}), r"must have shape \(7, 4\), got \(2, 2\)"),
        (zipped(**{"x.txt": b"1;two"}), "must be a table of numbers"),
    ],
)
def test_what_is_not_the_table_is_refused(served, content, complaint):
    root, _ = served
    (root / "fake+data.zip").write_bytes(content)
    with pytest.raises(DataError, match=complaint):
        find_table(ZIPPED)


def test_a_clear_message_where_there_is_nothing(served, monkeypatch, tmp_path):
    with pytest.raises(DataError, match=r"POLYSHARP_DATA is not set.*404.*set POLYSHARP_DATA"):
        find_table(PLAIN)
    with pytest.raises(DataError, match="downloads are switched off"):
        find_table(PLAIN, download=False)
    monkeypatch.setenv("POLYSHARP_DATA", str(tmp_path))
    with pytest.raises(DataError, match=f"neither in POLYSHARP_DATA={tmp_path} nor in the cache"):
        find_table(PLAIN)


def test_a_read_only_cache_is_no_obstacle(served, tmp_path):
    root, _ = served
    (root / "data.csv").write_text(CSV)
    (tmp_path / "cache").write_text("a file where the folder should be")
    np.testing.assert_array_equal(find_table(PLAIN), TABLE)


def test_unknown_names():
    with pytest.raises(InputError, match=r"^name must be one of 'airfoil', .*, got 'iris'$"):
        load_uci("iris")


def test_addresses_are_those_of_the_archive():
    for row in UCI_TABLES.values():
        assert row.file.url.startswith("https://archive.ics.uci.edu/static/public/")
        assert (row.file.member is None) == (not row.file.url.endswith(".zip"))


@pytest.mark.skipif(not REAL or not Path(REAL).is_dir(), reason="POLYSHARP_DATA is not set")
@pytest.mark.parametrize("name", UCI_NAMES)
def test_the_real_files(name):
    data = load_uci(name, download=False)
    assert data.X.shape == (UCI_TABLES[name].file.shape[0], len(data.input_names))
    assert np.isfinite(data.X).all()
    assert data.y.mean() == pytest.approx(MEANS[name], abs=6e-3)
    table = find_table(UCI_TABLES[name].file)
    assert sha256(table.astype("<f8").tobytes()).hexdigest() == UCI_TABLES[name].file.checksums[0]
