"""Files are written whole or not at all, and never over what is read."""

from __future__ import annotations

import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import check_targets, replacement, write_file

import polysharp
from polysharp import SparsePolynomialRegressor, save_model
from polysharp.cli import main
from polysharp.errors import InputError
from polysharp.report import write_report

POSIX = pytest.mark.skipif(os.name == "nt", reason="needs a POSIX system")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(0.5, 2.0, (60, 2)), columns=["a", "b"])
    frame["y"] = frame["a"] * frame["b"]
    frame.to_csv("t.csv", index=False)
    return tmp_path


@pytest.fixture
def model(folder):
    frame = pd.read_csv("t.csv")
    fitted = SparsePolynomialRegressor(2, 1, gamma=100.0, engine="enumeration")
    save_model(fitted.fit(frame[["a", "b"]], frame["y"]), "m.json")
    return fitted


FIT = ["fit", "t.csv", "-t", "y", "-r", "2", "-l", "1", "-q", "--engine", "enumeration"]


def run(*words, shell=""):
    """Run the program in a shell, with something before or after its words."""
    command = f"{sys.executable} -m polysharp {' '.join(words)} {shell}"
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


def test_a_new_file_has_the_permissions_of_the_old_one(tmp_path):
    file = tmp_path / "x.txt"
    file.write_text("old")
    file.chmod(0o640)
    write_file(file, "new")
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    fresh = tmp_path / "fresh.txt"
    write_file(fresh, b"bytes")
    (tmp_path / "plain").touch()
    assert fresh.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_what_goes_wrong_leaves_the_old_file_and_nothing_else(tmp_path):
    file = tmp_path / "x.txt"
    file.write_text("old")
    for error in (RuntimeError, KeyboardInterrupt):
        with pytest.raises(error), replacement(file) as place:  # noqa: PT012
            place.write_text("half of")
            raise error
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["x.txt"]


@POSIX
def test_a_link_stays_a_link_and_a_device_a_device(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_file(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"
    write_file("/dev/null", "nothing")
    assert not Path("/dev/null").is_file()


@POSIX
def test_an_error_names_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        write_file("/dev/full", "x")
    with pytest.raises(OSError, match=r"'nowhere/x.txt'"):
        write_file("nowhere/x.txt", "x")


def test_targets_are_told_apart_by_file_and_not_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").touch()
    os.link("t.csv", "same.csv")
    check_targets({"--output": "m.json", "--report": "r.html", "--proof": None}, ["t.csv"])
    for name in ("t.csv", str(tmp_path / "t.csv"), "./t.csv", "same.csv"):
        with pytest.raises(InputError, match="--output must not be a file that is read"):
            check_targets({"--output": name}, ["t.csv"])
    with pytest.raises(InputError, match="--report must not be the file of --output too"):
        check_targets({"--output": "m.json", "--report": "./m.json"})
    with pytest.raises(InputError, match=r"got the folder '\.'"):
        check_targets({"--output": "."})


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["predict", "m.json", "t.csv", "-o", "t.csv"], "--output must not be a file that is read"),
        (["predict", "m.json", "t.csv", "-o", "m.json"], "which is the same file as 'm.json'"),
        ([*FIT, "-o", "./t.csv"], "--output must not be a file that is read"),
        ([*FIT, "-o", "x", "--report", "x"], "--report must not be the file of --output too"),
        ([*FIT, "--proof", "t.csv"], "--proof must not be a file that is read"),
        (["report", "m.json", "t.csv", "-o", "t.csv"], "must not be a file that is read"),
        ([*FIT, "--size-table", "t.csv"], "--size-table must not be a file that is read"),
        (["info", "m.json", "-o", "m.json"], "must not be a file that is read"),
        ([*FIT, "-o", "t.csv/m.json"], "its folder is not there"),
    ],
)
def test_no_wrong_path_loses_a_table(model, capsys, words, complaint):
    before = {name: Path(name).read_bytes() for name in ("t.csv", "m.json")}
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""  # nothing was fitted, nothing was read
    assert err.count("\n") == 1
    assert complaint in err
    assert {name: Path(name).read_bytes() for name in before} == before


@POSIX
def test_a_folder_that_takes_no_files_is_noticed_before_the_fit(folder, capsys, monkeypatch):
    if not os.path.isdir("/proc/self"):
        pytest.skip("needs /proc, where nobody can make files")
    monkeypatch.setattr(SparsePolynomialRegressor, "fit", None)
    assert main([*FIT, "-o", "/proc/m.json"]) == 2
    assert "--output='/proc/m.json' cannot be written: " in capsys.readouterr().err


def test_a_folder_of_tables_is_not_written_into(folder, capsys):
    os.mkdir("many")
    shutil.copy("t.csv", "many/1.csv")
    words = ["fit", "many", "-t", "y", "-o", "many/1.csv"]
    assert main(words) == 2
    assert "--output must not be a file that is read" in capsys.readouterr().err


@POSIX
def test_a_full_disk_leaves_the_old_file_whole(model):
    """No file may grow beyond 512 bytes: the system's answer is that of a full disk."""
    Path("p.csv").write_text("old")
    done = run("predict", "m.json", "t.csv", "-o", "p.csv", shell="; exit $?")
    assert done.returncode == 0
    whole = Path("p.csv").read_text()
    limited = f"ulimit -f 1; {sys.executable} -m polysharp predict m.json t.csv -o p.csv"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "polysharp: error: 'p.csv' cannot be used: File too large\n"
    assert Path("p.csv").read_text() == whole
    assert sorted(os.listdir()) == ["m.json", "p.csv", "t.csv"]


@pytest.mark.parametrize("kind", ["model", "report", "proof"])
def test_everything_that_is_written_is_written_so(model, kind, monkeypatch):
    """What fails on the way to the disk leaves model, report and proof as they were."""
    frame = pd.read_csv("t.csv")
    X, y = frame[["a", "b"]], frame["y"]
    tree = SparsePolynomialRegressor(2, 1, gamma=1.0, engine="tree").fit(X, y)
    writers = {
        "model": lambda: save_model(model, "old"),
        "report": lambda: write_report(model, X, y, "old"),
        "proof": lambda: tree.solution_.proof.save("old"),
    }
    Path("old").write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="No space left"):
            writers[kind]()
    assert Path("old").read_text() == "old"
    writers[kind]()
    assert Path("old").read_text(errors="replace") != "old"


WRITER = """
import sys
from polysharp.data.files import write_file
print("ready", flush=True)
while True:
    for letter in "ab":
        write_file("target", letter * 3_000_000)
"""


@POSIX
@pytest.mark.slow
def test_a_hundred_kills_leave_a_whole_file(tmp_path):
    target, chance = tmp_path / "target", random.Random(0)
    write_file(target, "a" * 3_000_000)
    seen = set()
    for _ in range(100):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0.0, 0.05))
            writer.send_signal(signal.SIGKILL)
        text = target.read_text()
        assert len(text) == 3_000_000
        assert len(set(text)) == 1
        seen |= set(text)
    assert seen == {"a", "b"}


@POSIX
@pytest.mark.slow
def test_kills_during_predict_leave_the_old_predictions(model):
    assert main(["predict", "m.json", "t.csv", "-o", "p.csv"]) == 0
    whole, chance = Path("p.csv").read_bytes(), random.Random(0)
    command = [sys.executable, "-m", "polysharp", "predict", "m.json", "t.csv", "-o", "p.csv"]
    for _ in range(20):
        with subprocess.Popen(command, stdout=-3, stderr=-3) as process:
            time.sleep(chance.uniform(0.5, 1.5))
            process.send_signal(signal.SIGKILL)
        assert Path("p.csv").read_bytes() == whole


@POSIX
@pytest.mark.parametrize(
    ("words", "shell", "code", "said"),
    [
        (["info"], ">&-", 0, ""),
        (["fit", "nothing.csv", "-t", "y"], "2>&-", 2, ""),
        (["info"], "> /dev/full", 2, "polysharp: error: writing failed: No space left on device"),
    ],
)
def test_streams_that_are_closed_or_full(folder, words, shell, code, said):
    done = run(*words, shell=shell)
    assert done.returncode == code
    assert done.stderr.startswith(said) if said else done.stderr == ""
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@POSIX
def test_help_into_a_pipe_that_is_closed():
    done = run("fit", "--help", shell="| true; exit ${PIPESTATUS[0]}")
    assert done.returncode in (0, 141)
    assert done.stderr == ""


READ_ONLY = """
import os, sys, tempfile
import numba
from polysharp.engines.compiling import CACHED
print(CACHED, numba.config.CACHE_DIR)
"""


def read_only_copy(folder):
    """Copy the package, with files where Python and Numba would make folders for their caches."""
    package = Path(polysharp.__file__).parent
    copy = folder / "lib" / "polysharp"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for place in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        (place / "__pycache__").touch()
    return {
        "PYTHONPATH": str(copy.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/dev/null",
        "XDG_CACHE_HOME": "/dev/null/cache",
        "NUMBA_CACHE_DIR": "/dev/null/numba",
        "PATH": os.environ["PATH"],
    }


@POSIX
def test_a_read_only_system_caches_in_the_temporary_folder_or_not_at_all(tmp_path):
    environment = read_only_copy(tmp_path)
    spare = tmp_path / "spare"
    spare.mkdir()

    def answer(**more):
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY],
            env={**environment, **more},
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    expected = spare / f"polysharp-kernels-{os.getuid()}"
    assert answer(TMPDIR=str(spare)) == ["True", str(expected)]
    assert stat.S_IMODE(expected.stat().st_mode) == 0o700
    expected.chmod(0o777)  # where others could plant what we would run
    assert answer(TMPDIR=str(spare))[0] == "False"


@POSIX
@pytest.mark.slow
def test_a_fit_on_a_read_only_system(tmp_path, folder):
    environment = {**read_only_copy(tmp_path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "polysharp", *FIT[:-2], "-g", "1", "--require-proof"]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "optimal" in done.stdout
    assert list((tmp_path / f"polysharp-kernels-{os.getuid()}").iterdir())
