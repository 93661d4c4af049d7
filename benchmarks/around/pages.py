"""The local page: other hosts and origins, scripts in cells, large files, leftovers.

Every case sends requests to a running ``polysharp serve``; every twentieth starts one of its own
and ends it by a signal, after which nothing may be left in its folder.
"""

from __future__ import annotations

import atexit
import http.client
import json
import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

from around import command

SCRIPT = "<script>alert(1)</script>"
HOSTS = (
    *["localhost:{port}"] * 13, "127.0.0.1:{port}", "evil.example", "evil.example:{port}",
    "localhost", "localhost.evil.example:{port}", "127.0.0.1.nip.io:{port}", "[::1]:{port}", "",
    "a b", "localhost:{port}@evil.example", "0.0.0.0:{port}", "LOCALHOST:{port}",
)  # fmt: skip
OURS = {"localhost:{port}", "127.0.0.1:{port}", "LOCALHOST:{port}", "[::1]:{port}"}
ORIGINS = (
    *[None] * 7, "http://localhost:{port}", "http://evil.example", "null", "file://",
    "https://localhost:{port}", "http://localhost:1", "http://localhost:{port}.evil.example",
)  # fmt: skip
FRIENDS = {None, "http://localhost:{port}", "http://127.0.0.1:{port}"}
PATHS = ("", "state", "report", "download/model", "download/../../etc/passwd", "%2e%2e/state",
         "page.js", "nothing", "state?x=" + "a" * 5000, "download/" + "a" * 300)  # fmt: skip


class Page:
    """A running ``polysharp serve``."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        environment = {**os.environ, "TMPDIR": self.folder.name}
        self.process = subprocess.Popen(
            command("serve", "--no-browser", "--max-size", "1"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        assert self.process.stdout is not None
        address = urlsplit(self.process.stdout.readline().split()[-1])
        self.port, self.root = address.port, address.path

    def ask(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], root: str
    ) -> tuple[int, str, bytes]:
        """Send a request as it stands; return status, headers and content."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, root + path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        if body is not None:
            with suppress(OSError):  # refused before it was read
                connection.send(body)
        reply = connection.getresponse()
        found = reply.status, str(reply.headers), reply.read()
        connection.close()
        return found

    def end(self, how: int = signal.SIGINT) -> list[str]:
        """End the server; return what is left in its folder."""
        self.process.send_signal(how)
        self.process.communicate(timeout=60)
        left = [path.name for path in Path(self.folder.name).rglob("*")]
        self.folder.cleanup()
        return left


@cache
def page() -> Page:
    """Return the page that all cases of this process ask."""
    found = Page()
    atexit.register(found.end)
    return found


def table(rng: np.random.Generator) -> bytes:
    """Write a table with scripts for names and cells, too large at times."""
    names = [SCRIPT, "a", '"><img src=x onerror=alert(1)>', "y"]
    rows = rng.standard_normal((int(rng.integers(0, 60)), 4)).round(3).astype(str).tolist()
    if rows and rng.random() < 0.5:
        rows[0][1] = SCRIPT
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    text = "\n".join(",".join(row) for row in [quoted, *rows])
    return text.encode() + (b"\n" * 2_000_000 if rng.random() < 0.1 else b"")


def check(seed: int, tally: Any) -> None:
    """Send a few requests, or end a page of its own."""
    rng = np.random.default_rng([59, seed])
    if seed % 20 == 19:
        own = Page()
        how = signal.SIGTERM if rng.random() < 0.7 else signal.SIGINT
        host = {"Host": f"localhost:{own.port}"}
        own.ask("POST", "table?name=t.csv", table(rng), host, own.root)
        fit = {"target": 3, "inputs": [0, 1, 2, 3], "max-terms": 2, "degree": 2}
        if rng.random() < 0.7:
            own.ask("POST", "fit", json.dumps(fit).encode(), host, own.root)
        left = own.end(how)
        tally.count(f"ended by {signal.Signals(how).name}")
        if left:
            tally.find("left behind", f"seed {seed} {signal.Signals(how).name}", str(left))
        return
    here = page()
    host, origin = str(rng.choice(HOSTS)), ORIGINS[int(rng.integers(len(ORIGINS)))]
    headers = {"Host": host.format(port=here.port)}
    if origin is not None:
        headers["Origin"] = origin.format(port=here.port)
    token = rng.random() < 0.9
    root = here.root if token else str(rng.choice(["/", "/x/", "//", here.root[:-2] + "/"]))
    posts = rng.random() < 0.5
    path, body = str(rng.choice(PATHS)), None
    if posts:
        path = str(rng.choice(["table?name=" + quote(SCRIPT), "fit", "stop", "nothing"]))
        body = table(rng) if path.startswith("table") else rng.bytes(int(rng.integers(0, 50)))
    status, replied, content = here.ask("POST" if posts else "GET", path, body, headers, root)
    where = f"seed {seed} {'POST' if posts else 'GET'} {path[:40]!r} {headers} {status}"
    tally.count(f"status {status}")
    ours = host in OURS and origin in FRIENDS and token
    if status == 200 and not ours:
        tally.find("answered a stranger", where)
    if status >= 500:
        tally.find("server error", where, content[:200].decode(errors="replace"))
    if b"Traceback" in content:
        tally.find("traceback", where)
    if SCRIPT.encode() in content and "text/html" in replied:
        tally.find("script in the page", where)
    if not ours and here.root.strip("/").encode() in content:
        tally.find("token told to a stranger", where)
    if here.process.poll() is not None:
        page.cache_clear()
        tally.find("the page has ended", where)
