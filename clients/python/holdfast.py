"""Holdfast for Python workers: one file, standard library only, Python 3.11 or later.

    client = Client.from_env()                      # HOLDFAST_URL, HOLDFAST_TOKEN or HOLDFAST_TOKEN_FILE
    with client.hold("export", subject="user:u_42", wait=120) as h:
        for part in parts:
            h.raise_if_lost()                       # stop before somebody else may begin
            write(part, slot=h.slot, fence=h.fence)
    if client.check("call", subject="user:u_42"): ...

A hold is extended by a thread of the client, in batches. It is lost when the server says so, or at
its deadline: counted from before the last request that took effect was sent, on the larger of the
monotonic and the wall clock, less a margin. Nothing can interrupt your code; ask h.lost or call
h.raise_if_lost() before each side effect, and give slot and fence to what you write to.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import secrets
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

__all__ = ["Client", "Hold", "Check", "HoldfastError", "Refused", "NoFreeSlot", "QuotaExceeded",
           "Paused", "NeverFits", "HoldLost", "Unauthorized", "Unavailable"]

_ATTEMPTS = 4           # of one act, the first included
_FLOOR, _CAP = 0.2, 5.0  # seconds between attempts, whatever Retry-After says
_POLL = 2.0             # seconds, at most, between two tries while no line is kept
_SLICE = 60             # seconds that one request may be held back in line; after them the place is kept for the next
_HELD = 2.0             # seconds: a refusal that took longer came at the end of a slice
_LEAVE = 2.0            # seconds, at most, for giving up a place in line
_BATCH = 500            # ids in one request to extend
_TICK = 0.25            # seconds between two looks at the clocks
_MAX_ANSWER = 8 << 20   # bytes
_NO_ANSWER = (OSError, http.client.HTTPException)


class HoldfastError(Exception):
    """What the server refused, or could not do. `code` is the problem's code ("" without one),
    `retry_after` seconds to wait (None: waiting does not help), `problem` the whole document."""

    def __init__(self, detail: str, code: str = "", status: int = 0, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{code}: {detail}" if code else detail)
        self.detail, self.code, self.status = detail, code, status
        self.problem: dict[str, Any] = dict(problem or {})
        millis, seconds = self.problem.get("retryAfterMs"), self.problem.get("retryAfterSeconds")
        self.retry_after: float | None = millis / 1000 if millis is not None else seconds
        self.holders: list[dict[str, Any]] = self.problem.get("holders", [])


class Refused(HoldfastError):
    """A limit said not now."""


class NoFreeSlot(Refused):
    """Every slot is held; `holders` says by whom, as far as this token may see."""


class QuotaExceeded(Refused):
    """A counting limit is used up; `retry_after` says until when."""


class Paused(Refused):
    """The limit is paused, or the subject is blocked."""


class NeverFits(HoldfastError):
    """The cost is above the amount: waiting does not help."""


class HoldLost(HoldfastError):
    """The hold is no more, or may be no more: stop the work."""


class Unauthorized(HoldfastError):
    """The token is missing, not trusted, or does not allow this."""


class Unavailable(HoldfastError):
    """The server is away, or could not decide. Nothing was refused."""


_KINDS: dict[str, type[HoldfastError]] = {
    "no-free-slot": NoFreeSlot, "line-full": NoFreeSlot, "wait-cancelled": NoFreeSlot,
    "quota-exceeded": QuotaExceeded, "limit-paused": Paused, "subject-blocked": Paused,
    "never-fits": NeverFits, "hold-lost": HoldLost,
    "unauthenticated": Unauthorized, "forbidden": Unauthorized, "slow-down": Unavailable,
}
_LOST = ("hold-lost", "not-found", "already-settled")  # of an id that was granted


def _error(status: int, problem: Mapping[str, Any]) -> HoldfastError:
    code = str(problem.get("code", ""))
    kind = _KINDS.get(code, Unavailable if status >= 500 or code == "idempotency-in-flight" else HoldfastError)
    return kind(str(problem.get("detail") or problem.get("title") or f"status {status}"), code, status, problem)


def _unknown(err: HoldfastError) -> bool:
    """Whether an act may have taken effect although no answer says so."""
    return isinstance(err, Unavailable) and err.code in ("", "outcome-unknown", "idempotency-in-flight", "internal")


class _Instant:
    """A moment on both clocks: one stands still while a machine sleeps, the other may be set."""

    def __init__(self) -> None:
        self.steady, self.wall = time.monotonic(), time.time()

    def age(self) -> float:
        """Seconds since then: the larger of the two clocks' figures."""
        return max(time.monotonic() - self.steady, time.time() - self.wall)


@dataclass(frozen=True)
class Check:
    """The answer of Client.check. It is true when the check was allowed."""

    allowed: bool
    limits: list[dict[str, Any]]
    code: str = ""
    detail: str = ""
    decided_by: str = ""
    retry_after: float | None = None  # seconds; None: waiting does not help
    never_fits: bool = False
    answer: dict[str, Any] = field(default_factory=dict, repr=False)

    def __bool__(self) -> bool:
        return self.allowed


class Hold:
    """A slot that is held, from Client.hold: a context manager, entered by `with`.

    Leaving the block commits; an exception releases. If the hold was lost meanwhile, leaving
    raises HoldLost, unless an exception is under way already."""

    def __init__(self, client: Client, made: Mapping[str, Any], sent: _Instant, ttl: float) -> None:
        self.id: str = made["id"]
        self.fence: int = made["fence"]
        self.slots: dict[str, int] = {s["limit"]: s["slot"] for s in made.get("slots", [])}
        self.slot: int | None = next(iter(self.slots.values()), None)
        self.ttl = ttl                  # seconds from each extend
        self.lost = threading.Event()   # set when the work must stop
        self.unsure = False             # the last try to extend failed
        self._client, self._why = client, HoldLost("its time is over", "hold-lost")
        self._cost: int | None = None
        self._extended(sent)

    def set_cost(self, cost: int) -> None:
        """Charge this much at the end instead of the estimate."""
        self._cost = cost

    def raise_if_lost(self) -> None:
        """Raise HoldLost when the work must stop; looks at the clocks itself."""
        if self.lost.is_set() or self._overdue():
            raise self._why

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None) -> None:
        self._client._forget(self)
        if self.lost.is_set() or self._overdue():
            if kind is None:
                raise self._why
            return  # what the server still holds of it runs out
        body = {} if kind or self._cost is None else {"cost": self._cost}
        try:
            self._client._settle(self, "release" if kind else "commit", body)
        except HoldfastError as failed:
            if kind is not None:
                return  # the block's own exception counts
            if failed.code in _LOST:
                raise HoldLost(failed.detail, failed.code, failed.status, failed.problem) from failed
            raise

    def _extended(self, sent: _Instant) -> None:
        self._sent, self.unsure = sent, False
        self._due, self._due_in, self._pause = sent, self.ttl / 3 * random.uniform(0.9, 1), _FLOOR

    def _failed(self) -> None:
        self.unsure, self._due, self._due_in = True, _Instant(), self._pause * random.uniform(1, 1.25)
        self._pause = min(2 * self._pause, self.ttl / 10, _CAP)

    def _overdue(self) -> bool:
        if self._sent.age() >= self.ttl - max(1.0, self.ttl / 20):
            self.lost.set()
        return self.lost.is_set()


class Client:
    """Talks to one Holdfast server. Safe for threads; make a new one after a fork.

    `token` is a string or a function that gives the present one; it is asked before each request.
    `timeout` bounds one act in seconds, its repetitions included."""

    def __init__(self, url: str, token: str | Callable[[], str], *, timeout: float = 15.0) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no http or https URL")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path, self._token, self._timeout = parts.path.rstrip("/"), token, timeout
        self._tls = ssl.create_default_context() if self._secure else None
        self._holds: dict[str, Hold] = {}
        self._changed, self._closed, self._threads = threading.Condition(), False, False

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ, **options: Any) -> Client:
        """HOLDFAST_URL (default http://127.0.0.1:7420), and HOLDFAST_TOKEN, or HOLDFAST_TOKEN_FILE,
        which is read anew before each request."""
        token, file = env.get("HOLDFAST_TOKEN", "").strip(), env.get("HOLDFAST_TOKEN_FILE", "")

        def read() -> str:
            try:
                with open(file, encoding="utf-8") as f:
                    return f.read().strip()
            except OSError as err:
                raise Unauthorized(f"the token file cannot be read: {err}") from err

        if not token and not file:
            raise Unauthorized('there is no token: export HOLDFAST_TOKEN="$(holdfast token)", or name a HOLDFAST_TOKEN_FILE')
        return cls(env.get("HOLDFAST_URL") or "http://127.0.0.1:7420", token or read, **options)

    def hold(self, action: str, subject: str | None = None, *, wait: float = 0, ttl: int | None = None, cost: int = 1,
             owner: str | None = None, labels: Mapping[str, str] | None = None) -> Hold:
        """Take a slot; enter the answer by `with`.

        `subject` is "kind:id" (default: the token's own), `wait` seconds to wait for a slot, `ttl`
        whole seconds from each extend (2 to 3600; default: the limit's), `cost` what counting limits
        are charged. The server keeps the line: first come, first served. Raises NoFreeSlot,
        QuotaExceeded, Paused, NeverFits, Unauthorized, Unavailable."""
        body = self._body(action, subject, cost, owner, labels) | ({} if ttl is None else {"ttlSeconds": ttl})
        began, key, pause, queued = _Instant(), secrets.token_hex(16), 0.25, False
        sure: list[_Instant] = []  # the first try that may have taken effect
        while True:
            left = wait - began.age()
            # A slice below 60 s leaves no place behind when it ends.
            ask = body | ({"waitSeconds": _SLICE if left > _SLICE else max(1, min(math.ceil(left), _SLICE - 1))} if queued else {})
            tried = _Instant()
            try:
                return self._take(ask, key, ttl, sure, max(left, 1.0) if wait > 0 else self._timeout)
            except HoldLost:  # what an earlier try was granted has ended: ask anew
                key, failed = secrets.token_hex(16), Unavailable("the hold of a lost answer has ended")
                sure.clear()
            except (Refused, Unavailable) as err:
                failed = err
            except BaseException:  # a KeyboardInterrupt too: nobody waits any more
                self._leave(ask, key, queued or bool(sure))
                raise
            left, held = wait - began.age(), queued and tried.age() >= _HELD
            hopeless = failed.code == "wait-cancelled" or isinstance(failed, (QuotaExceeded, Paused)) and not 0 < (failed.retry_after or 0) <= left
            if left <= 0 or hopeless:
                self._leave(ask, key, held or bool(sure))
                raise failed
            first, queued = not queued, queued or isinstance(failed, Refused)
            if isinstance(failed, Refused) and (held or first and queued):
                continue  # to take the place in line, or to come back for it
            try:
                time.sleep(min(left, pause * random.uniform(1, 1.25)))
            except BaseException:
                self._leave(ask, key, queued or bool(sure))
                raise
            pause = min(2 * pause, _POLL)

    def _take(self, ask: dict[str, Any], key: str, ttl: int | None, sure: list[_Instant], left: float) -> Hold:
        """One question for a slot. What its answer counts from is remembered in `sure`."""
        held, sent = float(ask.get("waitSeconds", 0)), _Instant()
        try:
            made, replayed = self._act("POST", "/v1/reservations", ask, key, held + self._timeout if held else min(self._timeout, left))
        except Unavailable as err:
            if not sure and _unknown(err):
                sure.append(sent)
            raise
        if replayed and sure:
            sent = sure[0]  # an earlier try's: its time began then
        seconds = float(ttl or made["ttlSeconds"])
        if replayed and sure or sent.age() > seconds / 10:  # so that nothing half used up is handed over
            sent = _Instant()
            more, _ = self._act("POST", f"/v1/reservations/{made['id']}/extend", {} if ttl is None else {"ttlSeconds": ttl})
            made = made | more
        hold = Hold(self, made, sent, seconds)
        self._keep(hold)
        return hold

    def _leave(self, ask: Mapping[str, Any], key: str, may_stand: bool) -> None:
        """Give up the place that nobody waits at any more, since it holds up others; what was
        granted meanwhile is released. When that fails the server does it: 10 s, or a TTL, later."""
        end = time.monotonic() + _LEAVE
        while may_stand and time.monotonic() < end:
            try:
                made, _ = self._once("POST", "/v1/reservations", dict(ask) | {"waitSeconds": 0}, key, _LEAVE)
                self._once("POST", f"/v1/reservations/{made['id']}/release", {"reason": "nobody waits for it any more"}, None, _LEAVE)
                return
            except HoldfastError as err:
                if err.code != "idempotency-in-flight":  # the server has not noticed yet that we hung up
                    return
                time.sleep(0.05)

    def check(self, action: str, subject: str | None = None, *, cost: int = 1, mode: str = "consume") -> Check:
        """Ask, and charge when allowed (mode "consume"), or only ask ("preview"). A refusal is an
        answer, not an exception."""
        body = self._body(action, subject, cost, None, None) | {"mode": mode}
        got, _ = self._act("POST", "/v1/checks", body, None if mode == "preview" else secrets.token_hex(16))
        millis = got.get("retryAfterMs")
        return Check(got["allowed"], got.get("limits", []), got.get("code", ""), got.get("detail", ""), got.get("decidedBy", ""),
                     millis / 1000 if millis is not None else got.get("retryAfterSeconds"), got.get("neverFits", False), got)

    def close(self) -> None:
        """End the threads. Holds that are not settled run out."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- one act

    def _body(self, action: str, subject: str | None, cost: int, owner: str | None, labels: Mapping[str, str] | None) -> dict[str, Any]:
        body: dict[str, Any] = {"action": action, "cost": cost}
        if subject is not None:
            kind, colon, name = subject.partition(":")
            if not colon:
                raise ValueError(f"{subject!r} is no subject: write kind:id, for example user:u_42")
            body["subject"] = {"kind": kind, "id": name}
        if owner is not None:
            body["owner"] = {"name": owner, "host": socket.gethostname()[:128], "pid": os.getpid()}
        return body | ({"labels": dict(labels)} if labels else {})

    def _act(self, method: str, path: str, body: Any, key: str | None = None, within: float | None = None) -> tuple[dict[str, Any], bool]:
        """Send an act until it is decided, under one key; every act here is safe to repeat."""
        began, pause = _Instant(), _FLOOR
        within = self._timeout if within is None else within
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._once(method, path, body, key, max(0.1, within - began.age()))
            except Unavailable as err:
                wait = min(max(err.retry_after or 0, pause), _CAP) * random.uniform(1, 1.25)
                if attempt == _ATTEMPTS or began.age() + wait > within:
                    raise
                time.sleep(wait)
                pause *= 2
        raise AssertionError("not reached")

    def _once(self, method: str, path: str, body: Any, key: str | None, timeout: float) -> tuple[dict[str, Any], bool]:
        """Send one request on a connection of its own. No redirect is followed: the token stays here."""
        token = self._token if isinstance(self._token, str) else self._token()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "User-Agent": "holdfast-python"}
        if key is not None:
            headers["Idempotency-Key"] = key
        conn: http.client.HTTPConnection
        if self._secure:
            conn = http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)
        else:
            conn = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        try:
            conn.request(method, self._path + path, json.dumps(body), headers)
            resp = conn.getresponse()
            answer = json.loads(resp.read(_MAX_ANSWER) or b"{}")
        except _NO_ANSWER as err:
            raise Unavailable(f"no answer from {self._host}: {err}") from err
        except ValueError as err:
            raise Unavailable(f"{self._host} answered something that is no Holdfast answer") from err
        finally:
            conn.close()
        if resp.status // 100 != 2:
            answer = answer if isinstance(answer, dict) else {}
            after = resp.getheader("Retry-After", "")
            if after.isdigit():
                answer.setdefault("retryAfterSeconds", int(after))
            raise _error(resp.status, answer)
        return answer, resp.getheader("Idempotent-Replayed") == "true"

    def _settle(self, hold: Hold, verb: str, body: Any) -> None:
        """Commit or release, trying on while the server is away and the hold lasts."""
        while True:
            left = min(hold.ttl - hold._sent.age(), self._timeout)
            try:
                self._act("POST", f"/v1/reservations/{hold.id}/{verb}", body, within=max(left, 1.0))
                return
            except Unavailable:
                if hold._sent.age() > min(hold.ttl, self._timeout):
                    raise
                time.sleep(_FLOOR * random.uniform(1, 1.25))

    # --- keeping holds

    def _keep(self, hold: Hold) -> None:
        with self._changed:
            self._holds[hold.id] = hold
            if not self._threads:
                self._threads = True
                for loop in (self._extend_loop, self._watch_loop):
                    threading.Thread(target=loop, name=f"holdfast{loop.__name__}", daemon=True).start()
            self._changed.notify_all()

    def _forget(self, hold: Hold) -> None:
        with self._changed:
            self._holds.pop(hold.id, None)

    def _live(self) -> list[Hold] | None:
        """The holds there are, after a tick; None once the client is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._holds)
            if not self._closed:
                self._changed.wait(_TICK)
            return None if self._closed else list(self._holds.values())

    def _watch_loop(self) -> None:
        """Set `lost` in time, whatever the requests under way do."""
        while (holds := self._live()) is not None:
            for hold in holds:
                hold._overdue()

    def _extend_loop(self) -> None:
        while (holds := self._live()) is not None:
            due: dict[float, list[Hold]] = {}
            for hold in holds:
                if not hold.lost.is_set() and hold._due.age() >= hold._due_in:
                    due.setdefault(hold.ttl, []).append(hold)
            for ttl, some in due.items():
                for at in range(0, len(some), _BATCH):
                    self._extend(ttl, some[at:at + _BATCH])

    def _extend(self, ttl: float, holds: list[Hold]) -> None:
        sent = _Instant()
        try:
            answer, _ = self._once("POST", "/v1/heartbeats", {"ids": [h.id for h in holds], "ttlSeconds": int(ttl)}, None, min(ttl / 3, 5.0))
            results = {r["id"]: r for r in answer["results"]}
        except Exception:  # also what a token function raises: the thread must go on for the others
            results = {}
        for hold in holds:
            result = results.get(hold.id, {})
            problem = result.get("problem") or {}
            if result.get("ok"):
                hold._extended(sent)
            elif problem.get("code") in _LOST:
                hold._why = HoldLost(str(problem.get("detail", "")), problem["code"], problem.get("status", 0), problem)
                hold.lost.set()
            else:
                hold._failed()
