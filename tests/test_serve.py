"""``polysharp serve``: who may ask, what comes in, what is done with it, what is left behind."""

import http.client
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np
import pandas as pd
import pytest
from support import FILES, Format, UploadedTable, columns, form_of, inner, words_of

from polysharp import load_model
from polysharp.cli import make_parser
from polysharp.errors import InputError

joined = inner("joined", "cli")

SCRIPT = "<script>alert(1)</script>"
NAMES = (SCRIPT, '--target="x", y', "../../etc/passwd\nz", "power")
SECONDS = 120
WIDE = b",".join(b"c%d" % i for i in range(2001)) + b"\n" + b",".join([b"1"] * 2001)
GONE = "polysharp: ended; the tables and models of the page are removed\n"


class Page:
    """A running ``polysharp serve``, asked by hand."""

    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        environment = {**os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "polysharp", "serve", "--no-browser", "--max-size", "1"]
        self.process = subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=environment)
        self.folder = folder
        address = urlsplit(self.process.stdout.readline().split()[-1])
        self.port, self.root = address.port, address.path

    def ask(self, method, path, body=None, headers=(), root=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        address = (self.root if root is None else root) + path
        connection.request(
            method, address, body, {"Host": f"localhost:{self.port}", **dict(headers)}
        )
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        return reply.status, reply.headers, content

    def get(self, path, **how):
        return self.ask("GET", path, **how)

    def post(self, path, request=None, **how):
        body = request if isinstance(request, bytes) else json.dumps(request or {}).encode()
        status, _, content = self.ask("POST", path, body, **how)
        return status, json.loads(content)

    def table(self, content, name="rides.csv"):
        return self.post(f"table?name={quote(name)}", content)

    def wait(self, moments=None):
        """Return the state once the fit has ended, or once so much of its search has happened."""
        for _ in range(10 * SECONDS):
            state = json.loads(self.get("state")[2])
            task = state["task"]
            if not task["running"] or (moments is not None and len(task["moments"]) >= moments):
                return state
            time.sleep(0.1)
        raise AssertionError(state)

    def end(self, how=signal.SIGINT):
        self.process.send_signal(how)
        _, remarks = self.process.communicate(timeout=60)
        return self.process.returncode, remarks


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    page = Page(tmp_path_factory.mktemp("serve"))
    yield page
    page.end()
    assert list(page.folder.iterdir()) == []


def csv(names=NAMES, n=60):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, len(names) - 1))
    table = pd.DataFrame(np.column_stack([X, X[:, 0] + X[:, 1] ** 2]), columns=names)
    return table.to_csv(index=False).encode()


def request(**others):
    return {"target": 3, "inputs": [0, 1, 2, 3], "max-terms": 2, "degree": 2, **others}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:{port}"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:{port}"}, 200),
        ({"Host": "127.0.0.1:{port}"}, 200),
    ],
)
def test_only_this_computer_and_only_this_page_may_ask(page, headers, status):
    headers = {name: value.format(port=page.port) for name, value in headers.items()}
    assert page.get("state", headers=headers)[0] == status
    assert page.post("stop", headers=headers)[0] == status


@pytest.mark.parametrize("root", ["/", "//", "/x/", "/../", "/%2e%2e/", "/state?token="])
def test_without_the_token_there_is_nothing(page, root):
    for path in ("", "state", "report", "download/model"):
        status, _, content = page.get(path, root=root)
        assert status == 403
        assert page.root.strip("/").encode() not in content
    assert page.post("stop", root=root)[0] == 403


def test_the_page_loads_nothing_from_elsewhere_and_says_so(page):
    status, headers, content = page.get("")
    assert status == 200
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    for path in ("", "page.js", "page.css"):
        shown = page.get(path)[2].decode()
        assert set(re.findall(r"https?://[\w./]+", shown)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|eval\(", page.get("page.js")[2].decode()
    )
    assert b"<script>" not in content


@pytest.mark.parametrize(
    "path",
    ["nothing", "../state", "%2e%2e/state", "download/../model", "download/passwd", "model.json",
     "page.html", "session.py", "/etc/passwd", "download/", "\\state"],
)  # fmt: skip
def test_addresses_name_no_files(page, path):
    assert page.get(path)[0] == 404
    assert page.post(path)[0] == 404


def test_sizes_are_limited(page):
    large = {"Content-Length": str(10**6 + 1)}
    for headers, status in (
        (large, 413), ({"Content-Length": "9" * 99}, 413), ({"Content-Length": "-1"}, 411),
        ({"Content-Length": "1e3"}, 411),
    ):  # fmt: skip
        assert page.ask("POST", "table?name=a.csv", headers=headers)[0] == status
    assert page.ask("POST", "fit", headers={"Content-Length": str(2 << 20)})[0] == 413
    assert b"--max-size" in page.ask("POST", "table?name=a.csv", headers=large)[2]


@pytest.mark.parametrize("name", ["a.exe", "", "a", ".csv.gz", "a.parquet", "x" * 10**4])
def test_only_tables_are_taken(page, name):
    status, told = page.table(b"a,b\n1,2\n", name)
    assert status == 400
    assert "must end in one of" in told["error"]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../evil.csv", "evil.csv"),
        ("..\\..\\evil.csv", "evil.csv"),
        ("/etc/cron.d/evil.csv", "evil.csv"),
        (f"{SCRIPT}.csv", "script_.csv"),
        ("a\0b\n.csv", "a_b_.csv"),
        ("-o.csv", "o.csv"),
        (".csv", "table.csv"),
        ("....csv", "table.csv"),
        ("NUL.csv", "table.csv"),
        ("con.a.CSV", "table.csv"),
        ("Δp (kPa).csv", "Δp (kPa).csv"),
        ("x" * 300 + ".csv", "x" * 60 + ".csv"),
    ],
)
def test_a_name_stays_in_its_folder(tmp_path, name, kept):
    file = UploadedTable.called(name, tmp_path).file
    assert file.parent == tmp_path
    assert file.name == kept


def bomb():
    """Return an Excel file of a few kilobytes that unpacks to 50 MB."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"\0" * 50_000_000)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        (b"", "a.csv", "is empty"),
        (b"\xff\xfe\xfa,b\n1,2\n3", "a.csv", "is not text in the encoding"),
        (b"\0\1\2\3" * 99, "a.csv", "is not text"),
        (b"a,b\n", "a.csv", "has a header and no rows"),
        (b"a,a\n1,2\n", "a.csv", "several columns named 'a'"),
        (b"a,b\n1,2,3\n", "a.csv", "more fields than its header"),
        (b"x" * 900_000, "a.csv", "characters"),
        (WIDE, "a.csv", "2,000 columns"),
        (b"PK no zip at all", "a.xlsx", "cannot be read as Excel"),
        (bomb(), "a.xlsx", "unpack to at most"),
    ],
)  # fmt: skip
def test_bad_tables_get_one_sentence(page, content, name, said):
    status, state = page.table(content, name)
    assert status == 200  # the table came in; what is wrong with it is its state
    assert said in state["table"]["error"]
    assert str(page.folder) not in state["table"]["error"]
    assert state["table"]["columns"] == []
    assert page.post("fit", request())[0] == 400
    assert page.post("forget")[1]["table"] is None


def test_half_a_table_is_none(page):
    connection = http.client.HTTPConnection("127.0.0.1", page.port)
    connection.putrequest("POST", f"{page.root}table?name=a.csv", skip_host=True)
    connection.putheader("Host", f"127.0.0.1:{page.port}")
    connection.putheader("Content-Length", "1000")
    connection.endheaders(b"a,b\n1,2\n")
    connection.sock.shutdown(1)
    assert connection.getresponse().status == 400
    connection.close()
    assert json.loads(page.get("state")[2])["table"] is None
    assert [list(folder.iterdir()) for folder in page.folder.iterdir()] == [[]]


def test_the_page_shows_numbers_with_six_digits(page):
    (x, y) = page.table(b"x,y\n8.643540247857452,a\n1.5,b\n")[1]["table"]["columns"]
    assert x["cells"] == ["8.64354", "1.5"]
    assert y["cells"] == ["a", "b"]


def test_a_table_is_read_again_as_told(page):
    content = "größe;wert\n1,5;?\n2,5;3\n".encode("cp1252")
    looked_at = page.table(content)[1]["table"]
    assert "is not UTF-8: read as Windows text" in " ".join(looked_at["remarks"])
    assert [column["kind"] for column in looked_at["columns"]] == ["numbers", "numbers"]
    told = {"delimiter": ";", "decimal": ",", "encoding": "cp1252", "missing": "?"}
    found = page.post("read", told)[1]["table"]["columns"]
    assert [column["name"] for column in found] == ["größe", "wert"]
    assert [column["kind"] for column in found] == ["numbers", "numbers"]
    assert found[1]["missing"] == 1
    for bad in ({"encoding": "unicode_escape"}, {"delimiter": "ab"}, {"decimal": []}):
        assert page.post("read", bad)[0] == 400


@pytest.mark.parametrize(
    "bad",
    [
        {"target": 4}, {"target": -1}, {"target": "3"}, {"target": True}, {"target": 3.0},
        {"inputs": [3]}, {"inputs": []}, {"inputs": [9]}, {"inputs": "012"}, {"inputs": [0] * 9},
        {"missing": "--output=x"}, {"max-terms": 0}, {"degree": "2 --proof x"},
        {"time-limit": 10**9},
    ],
)  # fmt: skip
def test_requests_are_checked(bad):
    table = UploadedTable(Path("a.csv"), rows=9, names=NAMES, columns=({"kind": "numbers"},) * 4)
    with pytest.raises(InputError, match=next(iter(bad))):
        words_of(table, request(**bad))


@pytest.mark.parametrize("body", [b"[]", b"{", b"null", b"[" * 10**5, b"\xff"])
def test_requests_are_json_objects(page, body):
    assert page.post("fit", body)[0] == 400


def test_names_are_no_options():
    """Whatever a column is called, the command line reads it as that name."""
    table = UploadedTable(Path("a.csv"), Format(delimiter=";"), 9, NAMES, ({"kind": "few"},) * 4)
    words = words_of(table, request(target=0, inputs=[3]))
    options = make_parser().parse_args(words)
    assert options.target == SCRIPT
    assert columns(options, "exclude") == [name.strip() for name in NAMES[1:3]]
    assert options.indicators
    assert (options.output, options.report, options.proof) == tuple(FILES.values())
    assert joined(NAMES[1:3]) in words[4]
    assert form_of({}) == Format()


def test_from_a_table_to_a_report(page, tmp_path):
    assert page.post("fit", request())[0] == 400  # no table yet, or a bad one
    _, state = page.table(csv(), f"{SCRIPT}.csv")
    assert state["table"]["rows"] == 60
    assert [column["name"] for column in state["table"]["columns"]] == list(NAMES)
    for what in FILES:
        assert page.get(f"download/{what}")[0] == 400
    assert page.post("fit", request())[0] == 200
    task = page.wait()["task"]
    assert task["error"] is None
    assert task["result"]["proved"]
    assert not task["result"]["stopped"]
    for number, _, best, bound in task["moments"]:
        assert number >= 1
        assert 0 <= bound <= best * (1 + 1e-9)
    _, headers, report = page.get("download/report")
    assert headers["Content-Disposition"] == 'attachment; filename="script_-report.html"'
    assert SCRIPT.encode() not in report
    assert b"&lt;script&gt;" in report
    assert str(page.folder).encode() not in report
    assert "sandbox" in page.get("report")[1]["Content-Security-Policy"]
    model = tmp_path / "model.json"
    model.write_bytes(page.get("download/model")[2])
    assert load_model(model).polynomial_.response == "power"
    assert json.loads(page.get("state?since=99999")[2])["task"]["moments"] == []
    assert page.post("forget")[1] == {"max_bytes": 10**6, "table": None, "task": None}
    assert page.get("download/report")[0] == 400
    assert [list(folder.iterdir()) for folder in page.folder.iterdir()] == [[]]


def test_one_row_is_predicted(page):
    assert page.post("predict", {"values": [1]})[0] == 400  # no formula yet
    page.table(csv())
    page.post("fit", request(**{"max-terms": 1, "degree": 1}))
    result = page.wait()["task"]["result"]
    middle = [(one["low"] + one["high"]) / 2 for one in result["inputs"]]
    status, told = page.post("predict", {"values": middle})
    assert status == 200
    assert (told["response"], told["outside"]) == ("power", "")
    assert float(told["half"]) > 0.0
    far = page.post("predict", {"values": [1e6 for _ in middle]})[1]
    assert far["outside"]
    assert far["half"] is None
    for bad in (None, [], ["1"], [True] * len(middle), [*middle, 1.0], "12"):
        assert page.post("predict", {"values": bad})[0] == 400


def test_what_the_command_line_refuses_is_said(page):
    page.table(b"a,b\n1,x\n2,y\n3,\n")
    page.post("fit", {"target": 1, "inputs": [0]})
    assert "must hold numbers" in page.wait()["task"]["error"]


def test_a_search_that_is_stopped_keeps_the_best_and_the_page_goes_on(page):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((40, 13)), columns=[f"x{i}" for i in range(13)])
    page.table(table.to_csv(index=False).encode())
    asked = {"target": 12, "inputs": list(range(12)), "max-terms": 12, "time-limit": 3600}
    assert page.post("fit", asked)[0] == 200
    page.wait(moments=2)
    assert page.post("forget")[0] == 409
    assert page.post("fit", request())[0] == 409
    assert page.table(csv())[0] == 409
    assert page.post("stop")[0] == 200
    page.post("stop")  # twice is as good as once
    result = page.wait()["task"]["result"]
    assert result["stopped"]
    assert {"model", "report"} <= set(result["files"])
    page.table(csv())
    page.post("fit", request())
    assert not page.wait()["task"]["result"]["stopped"]


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_behind(tmp_path, how):
    page = Page(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((40, 13)), columns=[f"x{i}" for i in range(13)])
    page.table(table.to_csv(index=False).encode())
    page.post("fit", {"target": 12, "inputs": list(range(12)), "max-terms": 12, "time-limit": 3600})
    page.wait(moments=1)
    assert len(list(tmp_path.iterdir())) == 1
    code, remarks = page.end(how)
    assert (code, remarks) == (
        0,
        "polysharp: ended; the tables and models of the page are removed\n",
    )
    assert list(tmp_path.iterdir()) == []


DROPPED = """text => {
  const data = new DataTransfer();
  data.items.add(new File([text], "table.csv", {type: "text/csv"}));
  return data;
}"""


def test_in_a_browser_from_an_empty_folder_to_a_downloaded_report(browser, tmp_path):
    page, troubles = Page(tmp_path / "server"), []
    table = tmp_path / "table.csv"
    table.write_bytes(csv())
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark")
    tab = context.new_page()
    tab.on("console", lambda message: troubles.append(message.text))
    tab.on("pageerror", lambda error: troubles.append(str(error)))
    tab.on("dialog", lambda dialog: troubles.append(dialog.message))
    tab.goto(f"http://127.0.0.1:{page.port}{page.root}")
    dropped = tab.evaluate_handle(DROPPED, csv().decode())
    for kind in ("dragenter", "dragover", "drop"):
        tab.dispatch_event("#drop", kind, {"dataTransfer": dropped})
    tab.locator("#target").select_option(label="power")
    assert tab.locator("#inputs label").first.inner_text() == SCRIPT
    assert tab.locator("#preview th").first.inner_text() == SCRIPT
    tab.locator("#choice summary").click()
    tab.fill("[name=max-terms]", "2")
    tab.fill("[name=degree]", "2")
    tab.locator("#go").click()
    tab.locator("#result").wait_for(timeout=1000 * SECONDS)
    assert "Proved" in tab.locator("#verdict").inner_text()
    assert tab.locator("#formula").inner_text().startswith("power = ")
    assert "linear regression" in tab.locator("#sentence").inner_text()
    tab.locator("#predict button").click()
    tab.locator("#predicted", has_text="power = ").wait_for()
    tab.locator("#values input").first.fill("1e9")
    tab.locator("#predict button").click()
    tab.locator("#outside", has_text="outside the range of the table").wait_for()
    assert tab.locator("#chart path.line").count() == 2
    assert tab.frame_locator("#report").locator("h1").inner_text() == "A formula for power"
    with tab.expect_download() as download:
        tab.get_by_text("Download the report").click()
    assert download.value.suggested_filename == "table-report.html"
    assert "A formula for power" in download.value.path().read_text(encoding="utf-8")
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    tab.reload()  # nothing is lost
    tab.locator("#result").wait_for()
    tab.locator("#forget").click()
    tab.locator("#table").wait_for(state="hidden")
    tab.set_input_files("#file", table)  # for who would rather choose than drop
    tab.locator("#table").wait_for()
    context.close()
    assert page.end() == (0, GONE)
    assert list((tmp_path / "server").iterdir()) == []
    assert troubles == []
