"""`--from-hub`: the hub's own client, against a server on this machine."""

from __future__ import annotations

import http.server
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commandline import carbon_gym, program
from import_samples import SAMPLES

from carbon_gym.errors import InputError
from carbon_gym.importing.hub import _chosen
from carbon_gym.workload.readers import read_conversations

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "README.md": b"# Mine",
    "dataset_info.json": b"{}",
    "data/train-00000-of-00002.jsonl": SAMPLES["wildchat"].text.encode(),
    "data/train-00001-of-00002.jsonl": SAMPLES["lmsys"].text.encode(),
}
FAULTS = {"gated": (403, "GatedRepo"), "broken": (400, "BadRequest")}


class Hub(http.server.BaseHTTPRequestHandler):
    """The few answers of the hub that its client asks for, of one data set, me/mine."""

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/api/datasets/me/mine/tree/"):
            tree = [
                {"type": "file", "path": name, "size": len(text), "oid": f"{number:040x}"}
                for number, (name, text) in enumerate(FILES.items())
            ]
            return self.send(json.dumps(tree).encode(), "application/json", body)
        name = path.removeprefix("/datasets/me/mine/resolve/main/")
        if name in FILES:
            return self.send(FILES[name], "application/octet-stream", body)
        code, error = next(
            (faults for part, faults in FAULTS.items() if part in path), (404, "RepoNotFound")
        )
        self.send_response(code)
        self.send_header("X-Error-Code", error)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send(self, text: bytes, kind: str, body: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("ETag", f'"{len(text):040x}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if body:
            self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A hub on this machine, which a program run meanwhile takes for the real one."""
    pytest.importorskip("huggingface_hub")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("HTTP_PROXY", "http_proxy", "HF_HUB_OFFLINE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    yield
    server.shutdown()
    thread.join()
    server.server_close()


RUN = """
import sys
from carbon_gym.cli import main
sys.stderr = sys.stdout
try:
    main(["import", "conversations", "--from-hub", {name!r}, "--out", {out!r}])
except SystemExit as stop:
    print("code", stop.code)
"""


def imported(name: str, out: Path) -> str:
    return program(RUN.format(name=name, out=str(out)))


def test_the_first_part_of_a_data_set(hub: None, tmp_path: Path) -> None:
    said = imported("me/mine", tmp_path / "out")
    assert "(wildchat: " in said, said
    found = read_conversations(tmp_path / "out" / "conversations.csv.gz", "tokens")
    assert found.prompt_tokens.tolist() == SAMPLES["wildchat"].prompt


def test_a_file_that_is_named(hub: None, tmp_path: Path) -> None:
    said = imported("me/mine:data/train-00001-of-00002.jsonl", tmp_path / "out")
    assert "(lmsys: " in said, said


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("me/mine:data/none.jsonl", "has no file 'data/none.jsonl'; did you mean"),
        ("me/yours", "there is no public data set me/yours"),
        ("me/gated", "accept its terms"),
        ("me/broken", "me/broken could not be fetched"),
    ],
)
def test_what_the_hub_does_not_give(hub: None, name: str, fault: str, tmp_path: Path) -> None:
    said = imported(name, tmp_path / "out")
    assert fault in said, said
    assert "code 2" in said
    assert not (tmp_path / "out").exists()


def test_a_name_that_leaves_its_folder_is_not_fetched() -> None:
    names = ["../../evil.csv", "data/../../evil.csv", "plain.csv"]
    assert _chosen("me/mine", names, "") == "plain.csv"
    with pytest.raises(InputError, match="has no file that ends"):
        _chosen("me/mine", names[:2], "")


def test_no_client_and_no_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    outcome = carbon_gym("import", "conversations", "--from-hub", "wildchat")
    assert outcome.code == 2
    assert 'pip install "carbon-gym[data]"' in outcome.err
    outcome = carbon_gym("import", "conversations", "--from-hub", "wildcat")
    assert "did you mean 'wildchat'" in outcome.err
    outcome = carbon_gym("import", "conversations", "--from-hub", "../../etc/passwd")
    assert "is no data set" in outcome.err
