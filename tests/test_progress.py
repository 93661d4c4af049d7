"""What a fit shows while it runs: nothing, plain lines, or a live line."""

from __future__ import annotations

import io
import re
import threading

import numpy as np
import pytest
from support import Event, Share, announced, announcing, inner, open_progress, watching

from polysharp import SparsePolynomialRegressor

describe = inner("describe", "progress")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def event(phase, seconds=0.0):
    return Event(phase, 10.0, 9.0, nodes=0, cuts=1234, rounds=0, seconds=seconds)


def test_one_line_says_everything():
    text = describe(event("cutting", 1.0))
    assert text == "cutting 1.0 s: objective 10, bound 9, gap 10.00 %, 1,234 cuts"


def test_silence_costs_nothing():
    with open_progress(0) as progress:
        assert progress.listener is None
        assert progress.on_block("moments") is None


def test_a_pipe_gets_few_lines_and_the_last_word():
    out = io.StringIO()
    with open_progress(1, out) as progress:
        for _ in range(100):
            progress.listener(event("cutting"))
        progress.listener(event("done"))
        progress.on_block("moments")(4, 4)
    lines = out.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["cutting", "done", "moments:"]
    assert lines[-1] == "moments: 100 %"


def test_a_terminal_gets_a_live_line():
    out = Terminal()
    with open_progress(1, out) as progress:
        progress.on_block("moments")(1, 2)
        progress.listener(event("done"))
    assert "done 0.0 s: objective 10" in out.getvalue()
    assert "\x1b[" in out.getvalue()


def test_a_watcher_gets_the_events_themselves(capfd):
    seen = []
    X = np.random.default_rng(0).standard_normal((40, 4))
    model = SparsePolynomialRegressor(2, 2, gamma=1.0, engine="enumeration", n_candidates=3)
    with watching(seen.append):
        model.fit(X, X[:, 0] * X[:, 1])
    model.fit(X, X[:, 0] * X[:, 1])  # nobody watches any more
    assert [e.last for e in seen if isinstance(e, Event)].count(True) == 1
    assert "moments" in {share.stage for share in seen if isinstance(share, Share) and share.last}
    assert seen[-1].objective == pytest.approx(model.solution_.objective)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("verbose", "shown"), [(0, False), (1, True)])
def test_fit_shows_it(capfd, verbose, shown):
    X = np.random.default_rng(0).standard_normal((40, 4))
    model = SparsePolynomialRegressor(2, 2, engine="enumeration", n_candidates=3, verbose=verbose)
    model.fit(X, X[:, 0] * X[:, 1])
    out, err = capfd.readouterr()
    assert out == ""
    assert bool(err) == shown
    if shown:
        assert "ranking inputs: 100 %" in err
        assert "moments: 100 %" in err
        assert re.search(r"done [\d.]+ s: objective", err)


def test_slow_work_is_announced_to_whoever_watches(monkeypatch):
    monkeypatch.setattr("polysharp.progress.BLINK", 0.5)
    heard, done = [], threading.Event()

    def tell(share):
        heard.append(describe(share))
        done.set()

    with announcing(tell), announced("compiling (once)"):
        assert done.wait(10.0)
    with announcing(tell), announced("a blink"):
        pass
    with announced("nobody listens"):
        pass
    assert heard == ["compiling (once) ..."]
