"""``polysharp serve`` and the server of its page: who may ask, for what, and how much.

It listens on this computer only.  Other pages in the same browser can still send it requests, so

    every address begins with a random token, which only the page knows that was opened by it;
    the Host header must be this computer's, or a name that an attacker has pointed here would do;
    an Origin header, where there is one, must be the page's own.

Addresses are looked up in a table of a dozen entries: no part of one ever names a file.
"""

from __future__ import annotations

import json
import signal
import webbrowser
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from secrets import token_urlsafe
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from polysharp.cli.command import ExitCode, say
from polysharp.cli.page.form_request import FILES
from polysharp.cli.page.session import Refused, Session
from polysharp.cli.tables import need
from polysharp.errors import InputError
from polysharp.wording import plural

HOST = "127.0.0.1"
MEGABYTE = 10**6
MOST_REQUEST = 1 << 20  # bytes of what the page asks for, the table aside
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; frame-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
# A report runs no script and asks for nothing; its own policy says the same once more.
REPORT_POLICY = (
    "sandbox allow-popups; default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'"
)


@dataclass(frozen=True)
class Reply:
    """What a request gets."""

    content: bytes
    kind: str
    headers: dict[str, str] = field(default_factory=dict)


class PageServer(ThreadingHTTPServer):
    """The session behind a door."""

    daemon_threads = False  # the end waits for them: nobody may write into a folder that goes

    def __init__(self, session: Session, port: int) -> None:
        super().__init__((HOST, port), PageRequest)
        self.session = session
        self.token = token_urlsafe(32)
        self.once: str | None = token_urlsafe(32)
        own = files("polysharp.cli.page")
        report = files("polysharp.report").joinpath("style.css").read_bytes()
        self.assets = {
            "": Reply(own.joinpath("page.html").read_bytes(), "text/html"),
            "page.js": Reply(own.joinpath("page.js").read_bytes(), "text/javascript"),
            "page.css": Reply(report + own.joinpath("page.css").read_bytes(), "text/css"),
        }

    @property
    def address(self) -> str:
        """Where the page is; whoever knows it may use it."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    @property
    def first_address(self) -> str:
        """An address that leads there once: a browser's command line can be read by others."""
        return f"http://{HOST}:{self.server_port}/{self.once}"

    def is_own(self, host: str | None) -> bool:
        """Whether a Host header, or an Origin without its scheme, is this server's."""
        return host in {f"{name}:{self.server_port}" for name in (HOST, "localhost")}


class PageRequest(BaseHTTPRequestHandler):
    """One request."""

    server: PageServer
    server_version, sys_version = "polysharp", ""
    timeout = 10  # seconds without a byte

    def do_GET(self) -> None:
        """Show the page, its state, or a file that was made."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Take a table or a request."""
        self._answer(self._post)

    def log_message(self, *_: Any) -> None:
        """Say nothing: the terminal is the user's."""

    def _get(self, path: str, query: dict[str, str]) -> Reply:
        session = self.server.session
        if path in self.server.assets:
            return self.server.assets[path]
        if path == "state":
            since = query.get("since", "0")
            return _json(session.state(int(since) if since.isdecimal() else 0))
        if path == "report":
            _, content = session.file("report")
            return Reply(content, "text/html", {"Content-Security-Policy": REPORT_POLICY})
        folder, _, what = path.partition("/")
        if folder == "download" and what in FILES:
            name, content = session.file(what)
            kind = "text/html" if what == "report" else "application/octet-stream"
            return Reply(content, kind, {"Content-Disposition": f'attachment; filename="{name}"'})
        raise Refused("there is no such page", HTTPStatus.NOT_FOUND)

    def _post(self, path: str, query: dict[str, str]) -> Reply:
        session = self.server.session
        if path == "table":
            session.receive(query.get("name", ""), self._body(session.max_bytes, "a table"))
            return _json(session.state())
        actions: dict[str, Callable[[dict[str, Any]], Any]] = {
            "predict": session.predict,
            "read": session.read_as,
            "fit": session.start,
            "stop": lambda _: session.stop(),
            "forget": lambda _: session.forget(),
        }
        if path not in actions:
            raise Refused("there is no such page", HTTPStatus.NOT_FOUND)
        return _json(actions[path](self._form()) or session.state())

    def _answer(self, handle: Callable[[str, dict[str, str]], Reply]) -> None:
        try:
            status, reply = HTTPStatus.OK, self._checked(handle)
        except InputError as error:
            status = getattr(error, "status", HTTPStatus.BAD_REQUEST)
            reply = _json({"error": str(error)})
        except (ConnectionError, TimeoutError):
            return  # nobody is there any more
        if "Location" in reply.headers:
            status = HTTPStatus.SEE_OTHER
        self.send_response(status)
        headers = {"Content-Type": f"{reply.kind}; charset=utf-8", **HEADERS, **reply.headers}
        for name, value in {**headers, "Content-Length": str(len(reply.content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.content)

    def _checked(self, handle: Callable[[str, dict[str, str]], Reply]) -> Reply:
        server, (_, _, path, query, _) = self.server, urlsplit(self.path)
        if not server.is_own(self.headers.get("Host")):
            raise Refused("this page is for this computer only", HTTPStatus.MISDIRECTED_REQUEST)
        origin = self.headers.get("Origin")
        if origin is not None and not server.is_own(origin.removeprefix("http://")):
            raise Refused("another page may not ask this", HTTPStatus.FORBIDDEN)
        token, _, rest = path.removeprefix("/").partition("/")
        if server.once is not None and _same(token, server.once):
            server.once = None
            return Reply(b"", "text/plain", {"Location": f"/{server.token}/"})
        if not _same(token, server.token):
            raise Refused("the address must be the one in the terminal", HTTPStatus.FORBIDDEN)
        return handle(rest, {name: values[0] for name, values in parse_qs(query).items()})

    def _body(self, most: int, what: str) -> bytes:
        """Read all that comes with the request: a browser that may not send on shows no answer."""
        given = self.headers.get("Content-Length", "")
        if not given.isdecimal():
            raise Refused(f"{what} must come with its length", HTTPStatus.LENGTH_REQUIRED)
        if int(given) > most:
            raise Refused(
                f"{what} must have at most {plural(most, 'byte')}, got {int(given):,}; "
                "polysharp serve --max-size allows more, and polysharp fit knows no limit",
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            )
        content = self.rfile.read(int(given))
        if missing := int(given) - len(content):
            raise InputError(f"{what} must come whole, got {plural(missing, 'byte')} too few")
        return content

    def _form(self) -> dict[str, Any]:
        content = self._body(MOST_REQUEST, "a request")
        try:
            request = json.loads(content or b"{}")
        except (ValueError, RecursionError):
            request = None
        if not isinstance(request, dict):
            raise InputError(f"a request must be a JSON object, got {content[:40]!r}")
        return request


def _same(one: str, other: str) -> bool:
    return compare_digest(one.encode(errors="replace"), other.encode())


def _json(value: object) -> Reply:
    return Reply(json.dumps(value, allow_nan=False).encode(), "application/json")


def run_serve(options: Namespace) -> int:
    """Serve until Ctrl-C, and leave nothing behind."""
    if not 0 <= options.port < 65_536:
        raise InputError(f"--port must be between 0 and 65535, got {options.port}")
    if options.max_size < 1:
        raise InputError(f"--max-size must be at least 1, got {options.max_size}")
    need("pandas", "reading tables")
    for name in ("SIGTERM", "SIGHUP"):  # a closed terminal ends it like Ctrl-C
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)
    with suppress(KeyboardInterrupt), TemporaryDirectory(prefix="polysharp-") as folder:
        session = Session(Path(folder), options.max_size * MEGABYTE)
        with PageServer(session, options.port) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            try:
                print(f"The page is at {server.address}\nCtrl-C ends it.", flush=True)
                if not options.no_browser:
                    Thread(target=webbrowser.open, args=[server.first_address], daemon=True).start()
                session.work()
            finally:
                server.shutdown()
    say("ended; the tables and models of the page are removed")
    return ExitCode.DONE
