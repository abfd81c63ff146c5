"""What the client says of refusals and of a server that is away. Rules: API.md section 7."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest
from typing import Any
from unittest import mock

import holdfast
import rig


class TestRefusals(rig.Case):
    def test_no_free_slot(self) -> None:
        with self.client.hold("export", self.who, owner="a"), self.client.hold("export", self.who, owner="b"):
            with self.assertRaises(holdfast.NoFreeSlot) as caught:
                self.client.hold("export", self.who)
        self.assertEqual(sorted(h["owner"]["name"] for h in caught.exception.holders), ["a", "b"])
        self.assertGreater(caught.exception.retry_after or 0, 0)

    def test_waits_for_a_slot_that_is_released(self) -> None:
        first, second = self.client.hold("export", self.who), self.client.hold("export", self.who)
        timer = threading.Timer(1, first.__exit__, (None, None, None))
        timer.start()
        with self.client.hold("export", self.who, wait=rig.GENEROUS) as h:
            self.assertEqual(self.state(first), "committed")
            self.assertGreater(h.fence, second.fence)
        timer.join()

    def test_the_wait_ends(self) -> None:
        with self.client.hold("export", self.who), self.client.hold("export", self.who):
            asked = len(self.gate.paths("/v1/reservations"))
            with self.assertRaises(holdfast.NoFreeSlot):
                self.client.hold("export", self.who, wait=1.5)
        asks = [(key, json.loads(body).get("waitSeconds")) for _, key, body in self.gate.paths("/v1/reservations")[asked:]]
        self.assertEqual([wait for _, wait in asks[:2]], [None, 2], "first at once, then in line for what is left")
        self.assertEqual(len({key for key, _ in asks}), 1, "all of one wait under one key")

    def waiters(self) -> list[dict[str, Any]]:
        kind, _, name = self.who.partition(":")
        return [w for w in self.server.call("GET", "/v1/waiters")["data"] if w["subject"] == {"kind": kind, "id": name}]

    def test_is_served_in_the_order_it_came(self) -> None:
        first, second = self.client.hold("export", self.who), self.client.hold("export", self.who)
        served: list[int] = []

        def work(n: int) -> None:
            with self.client.hold("export", self.who, wait=rig.GENEROUS):
                served.append(n)

        workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for n, worker in enumerate(workers):
            worker.start()
            rig.until(lambda: len(self.waiters()) == n + 1, f"waiter {n} stands in line")
        first.__exit__(None, None, None)  # one slot: what is served next is told before it comes free
        for worker in workers:
            worker.join(rig.GENEROUS)
        second.__exit__(None, None, None)
        self.assertEqual(served, [0, 1, 2, 3])

    def test_who_stops_waiting_leaves_the_line(self) -> None:
        with self.client.hold("export", self.who), self.client.hold("export", self.who):
            child = subprocess.Popen(
                [sys.executable, "-c", "import holdfast, sys; holdfast.Client(*sys.argv[1:3]).hold('export', sys.argv[3], wait=60)",
                 self.gate.url, self.server.token, self.who],
                cwd=pathlib.Path(holdfast.__file__).parent, stderr=subprocess.DEVNULL)
            self.addCleanup(child.kill)
            rig.until(lambda: len(self.waiters()) == 1, "the child stands in line")
            child.send_signal(signal.SIGINT)
            self.assertNotEqual(child.wait(rig.GENEROUS), 0)
            _, key, body = self.gate.paths("/v1/reservations")[-1]
            self.assertEqual((key, json.loads(body)["waitSeconds"]), (self.gate.paths("/v1/reservations")[-2][1], 0))
            rig.until(lambda: not self.waiters(), "its place is given up")

    def test_each_kind(self) -> None:
        self.assertTrue(self.client.check("spend", self.who, cost=8))
        for words, kind, code, act in (
            ("a quota", holdfast.QuotaExceeded, "quota-exceeded", lambda: self.client.hold("spend", self.who, cost=3, wait=2)),
            ("a cost above the amount", holdfast.NeverFits, "never-fits", lambda: self.client.hold("spend", self.who, cost=11, wait=60)),
            ("a pause", holdfast.Paused, "limit-paused", lambda: self.client.hold("closed", self.who)),
            ("a wrong token", holdfast.Unauthorized, "unauthenticated", lambda: self.make("wrong").hold("export", self.who, wait=60)),
            ("no such action", holdfast.HoldfastError, "no-matching-limit", lambda: self.client.hold("exprot", self.who, wait=60)),
            ("a ttl out of bounds", holdfast.HoldfastError, "invalid-value", lambda: self.client.hold("export", self.who, ttl=3601)),
        ):
            with self.subTest(words), self.assertRaises(holdfast.HoldfastError) as caught:
                act()
            self.assertIs(type(caught.exception), kind)
            self.assertEqual(caught.exception.code, code)

    def test_server_away(self) -> None:
        self.gate.mode = "away"
        with self.assertRaises(holdfast.Unavailable):
            self.make(timeout=1).hold("export", self.who)
        with self.assertRaises(holdfast.Unavailable):
            holdfast.Client("http://127.0.0.1:1", "t").check("spend", self.who)

    def test_retry_after_has_a_floor_and_a_cap(self) -> None:
        for told, least, most in ((None, 0.2, 0.25), (1, 1, 1.25), (3600, 5, 6.25)):
            slept: list[float] = []
            problem = {"code": "overloaded"} | ({} if told is None else {"retryAfterSeconds": told})
            outcomes = [holdfast._error(503, problem), ({"allowed": True}, False)]
            with self.subTest(told), mock.patch.object(self.client, "_once", side_effect=outcomes), mock.patch.object(time, "sleep", slept.append):
                self.assertTrue(self.client.check("spend", self.who))
            self.assertEqual(len(slept), 1)
            self.assertTrue(least <= slept[0] <= most, f"Retry-After {told}: slept {slept[0]}")


class TestCheck(rig.Case):
    def test_preview_charges_nothing(self) -> None:
        for _ in range(3):
            self.assertTrue(self.client.check("spend", self.who, cost=10, mode="preview"))
        got = self.client.check("spend", self.who, cost=10)
        self.assertEqual((got.allowed, got.limits[0]["remaining"]), (True, 0))

    def test_a_refusal_is_an_answer(self) -> None:
        self.client.check("spend", self.who, cost=10)
        got = self.client.check("spend", self.who)
        self.assertFalse(got)
        self.assertEqual((got.code, got.decided_by, got.never_fits), ("quota-exceeded", "spend", False))
        self.assertGreater(got.retry_after or 0, 0)
        self.assertTrue(self.client.check("spend", self.who, cost=11).never_fits)


class TestFromEnv(rig.Case):
    def test_reads_the_token_file_anew(self) -> None:
        file = self.server.dir / "token"
        file.write_text("old\n")
        client = holdfast.Client.from_env({"HOLDFAST_URL": self.gate.url, "HOLDFAST_TOKEN_FILE": str(file)})
        with self.assertRaises(holdfast.Unauthorized):
            client.check("spend", self.who)
        file.write_text(self.server.token + "\n")
        self.assertTrue(client.check("spend", self.who))
        file.unlink()
        with self.assertRaises(holdfast.Unauthorized):
            client.check("spend", self.who)

    def test_says_what_is_missing(self) -> None:
        with self.assertRaisesRegex(holdfast.Unauthorized, "holdfast token"):
            holdfast.Client.from_env({})
        with self.assertRaises(ValueError):
            holdfast.Client("127.0.0.1:7420", "t")
        with self.assertRaises(ValueError):
            self.client.check("spend", "u_42")


if __name__ == "__main__":
    unittest.main()
