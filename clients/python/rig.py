"""A real server for the tests, and a gate in front of it that can be away or swallow answers.

The binary is the one HOLDFAST_BINARY names, else it is built once by `go build`."""

from __future__ import annotations

import atexit
import http.client
import http.server
import itertools
import json
import os
import pathlib
import select
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

import holdfast

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENEROUS = 60.0  # seconds: a liveness deadline, far beyond what anything here takes

LIMITS = """\
limits:
- {id: exports, name: Exports, subjectKind: user, action: export, amount: 2, window: concurrent}
- {id: many, name: Many, subjectKind: user, action: many, amount: 1000, window: concurrent}
- {id: spend, name: Spend, subjectKind: user, action: spend, amount: 10, window: day}
- {id: closed, name: Closed, subjectKind: user, action: closed, amount: 1, window: concurrent, paused: true}
"""

_lock = threading.Lock()
_shared: list[Server] = []


def until(what: Callable[[], bool], words: str) -> None:
    """Wait until something is true."""
    end = time.monotonic() + GENEROUS
    while not what():
        if time.monotonic() > end:
            raise AssertionError(f"not within {GENEROUS} s: {words}")
        threading.Event().wait(0.02)


class Server:
    """`holdfast dev` on free ports, in a folder of its own."""

    def __init__(self) -> None:
        self._dir = tempfile.TemporaryDirectory(prefix="holdfast-py-")
        self.dir = pathlib.Path(self._dir.name)
        self.binary = os.environ.get("HOLDFAST_BINARY") or self._build()
        (self.dir / "limits.yaml").write_text(LIMITS)
        self.env = dict(os.environ, HOME=str(self.dir), XDG_CONFIG_HOME=str(self.dir))
        for name in [n for n in self.env if n.startswith("HOLDFAST_") and n != "HOLDFAST_BINARY"]:
            del self.env[name]
        self._log = open(self.dir / "log", "w")
        self._run = subprocess.Popen(
            [self.binary, "dev", "--memory", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
             "--data-dir", str(self.dir / "data"), "--limits", str(self.dir / "limits.yaml")],
            env=self.env, stdout=self._log, stderr=subprocess.STDOUT)
        told = self.dir / "log"
        until(lambda: self._run.poll() is not None or "ready in" in told.read_text(), "the server is ready")
        if self._run.poll() is not None:
            raise AssertionError("the server ended:\n" + told.read_text())
        dev = json.loads((self.dir / "data" / "dev.json").read_text())
        self.url, self.admin, self.token = dev["url"], dev["adminUrl"], dev["token"]
        self.env |= {"HOLDFAST_URL": self.url, "HOLDFAST_ADMIN_URL": self.admin, "HOLDFAST_TOKEN": self.token}

    def _build(self) -> str:
        out = self.dir / "holdfast"
        subprocess.run(["go", "build", "-buildvcs=false", "-o", str(out), "./cmd/holdfast"], cwd=ROOT, check=True)
        return str(out)

    def stop(self) -> None:
        self._run.terminate()
        self._run.wait(GENEROUS)
        self._log.close()
        self._dir.cleanup()

    def call(self, method: str, path: str, body: Any = None, admin: bool = False) -> Any:
        """One request as the administrator, without the client under test."""
        data = None if body is None else json.dumps(body).encode()
        req = urllib.request.Request((self.admin if admin else self.url) + path, data, method=method, headers={
            "Authorization": f"Bearer {self.token}", "Content-Type": "application/json"})
        with urllib.request.urlopen(req, timeout=GENEROUS) as resp:
            return json.loads(resp.read() or b"null")

    def get(self, hold_id: str) -> dict[str, Any]:
        return self.call("GET", f"/v1/reservations/{hold_id}")

    def holds(self, subject: str, state: str = "held") -> list[dict[str, Any]]:
        query = urllib.parse.urlencode({"subject": subject, "state": state, "pageSize": 500})
        return self.call("GET", f"/v1/reservations?{query}")["data"]

    def force(self, hold_id: str) -> None:
        self.call("POST", f"/admin/v1/reservations/{hold_id}/force-release",
                  {"reason": "for a test", "fence": self.get(hold_id)["fence"]}, admin=True)


def shared() -> Server:
    """The one server of all tests; each has a subject of its own."""
    with _lock:
        if not _shared:
            _shared.append(Server())
            atexit.register(_shared[0].stop)
        return _shared[0]


class Gate:
    """Stands between a client and the server. mode: "open", "away" (the connection breaks before
    the server hears of it), "swallow" (the server acts, its answer is lost)."""

    def __init__(self, server: Server) -> None:
        self.mode, self.lost, self.seen = "open", 0, []
        to = urllib.parse.urlsplit(server.url)
        gate = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                gate.seen.append((self.path, self.headers.get("Idempotency-Key"), body))
                if gate.mode == "away":
                    return self._cut()
                conn = http.client.HTTPConnection(to.hostname or "", to.port, timeout=GENEROUS)
                conn.request("POST", self.path, body, dict(self.headers))
                ready, _, _ = select.select([conn.sock, self.connection], [], [], 2 * GENEROUS)
                if conn.sock not in ready:  # the client hung up: so does the gate
                    conn.close()
                    return self._cut()
                resp = conn.getresponse()
                answer = resp.read()
                conn.close()
                if gate.mode == "swallow":
                    gate.lost += 1
                    return self._cut()
                self.send_response(resp.status)
                for name, value in resp.getheaders():
                    if name.lower() not in ("connection", "date", "server"):
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

            def _cut(self) -> None:
                self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self._front = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._front.daemon_threads = True
        threading.Thread(target=self._front.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._front.server_address[1]}"

    def paths(self, end: str) -> list[tuple[str, str | None, bytes]]:
        return [seen for seen in self.seen if seen[0].endswith(end)]

    def close(self) -> None:
        self._front.shutdown()
        self._front.server_close()


_numbers = itertools.count()


class Case(unittest.TestCase):
    """A test with a client of its own, behind a gate, and a subject of its own."""

    def setUp(self) -> None:
        self.server = shared()
        self.gate = Gate(self.server)
        self.addCleanup(self.gate.close)
        self.client = self.make()
        self.who = f"user:{self.id()}-{next(_numbers)}"

    def make(self, token: str | None = None, **options: float) -> holdfast.Client:
        client = holdfast.Client(self.gate.url, token or self.server.token, **options)
        self.addCleanup(client.close)
        return client

    def state(self, h: holdfast.Hold) -> str:
        return self.server.get(h.id)["state"]
