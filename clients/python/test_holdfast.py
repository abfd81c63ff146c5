"""The client against a real server. Rules: CLI.md section 5, GUARANTEES.md section 2."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest
from datetime import datetime
from unittest import mock

import holdfast
import rig


class TestHold(rig.Case):
    def test_commits_at_the_end(self) -> None:
        with self.client.hold("export", self.who, owner="report", labels={"job": "9"}) as h:
            got = self.server.get(h.id)
            self.assertEqual((got["state"], got["slots"], got["fence"]), ("held", [{"limit": "exports", "slot": h.slot}], h.fence))
            self.assertEqual((got["owner"]["name"], got["owner"]["pid"], got["labels"]), ("report", os.getpid(), {"job": "9"}))
            self.assertFalse(h.lost.is_set())
            h.raise_if_lost()
        self.assertEqual(self.state(h), "committed")

    def test_set_cost_charges_what_it_was(self) -> None:
        with self.client.hold("spend", self.who, cost=5) as h:
            h.set_cost(2)
        got = self.server.get(h.id)
        self.assertEqual((got["charged"], got["refunded"]), (2, 3))

    def test_an_exception_releases_and_goes_on(self) -> None:
        for error in (ValueError("as it was"), KeyboardInterrupt()):
            with self.subTest(error), self.assertRaises(type(error)) as caught:
                with self.client.hold("spend", self.who, cost=5) as h:
                    raise error
            self.assertIs(caught.exception, error)
            self.assertEqual(self.server.get(h.id)["charged"], 0)
            self.assertEqual(self.state(h), "released")

    def test_fences_rise_with_every_holder(self) -> None:
        fences = []
        for _ in range(3):
            with self.client.hold("export", self.who) as h:
                fences.append(h.fence)
        self.assertEqual(fences, sorted(set(fences)))

    def test_is_extended_in_one_batch(self) -> None:
        holds = [self.client.hold("many", self.who, ttl=9) for _ in range(20)]
        last = [h._sent for h in holds]
        rig.until(lambda: all(h._sent is not was for h, was in zip(holds, last)), "all are extended")
        beats = self.gate.paths("/v1/heartbeats")
        self.assertLess(len(beats), len(holds), "20 holds are extended in fewer requests than 20")
        for h in holds:
            h.__exit__(None, None, None)
            self.assertEqual(self.state(h), "committed")

    def test_outlives_its_ttl(self) -> None:
        def lasted() -> float:
            got = self.server.get(h.id)
            at = [datetime.fromisoformat(got.get(name, got["createdAt"])) for name in ("createdAt", "lastHeartbeatAt")]
            return (at[1] - at[0]).total_seconds()

        with self.client.hold("export", self.who, ttl=4) as h:
            rig.until(lambda: lasted() > h.ttl, "it is extended past its first TTL")
            h.raise_if_lost()
            self.assertEqual(self.state(h), "held")


class TestLoss(rig.Case):
    def test_forced_away(self) -> None:
        with self.assertRaises(holdfast.HoldLost) as caught:
            with self.client.hold("export", self.who, ttl=3) as h:
                self.server.force(h.id)
                self.assertTrue(h.lost.wait(rig.GENEROUS))
                with self.assertRaises(holdfast.HoldLost):
                    h.raise_if_lost()
        self.assertEqual(caught.exception.problem["reason"], "forced")

    def test_lost_just_before_the_end(self) -> None:
        with self.assertRaises(holdfast.HoldLost):
            with self.client.hold("export", self.who, ttl=60) as h:
                self.server.force(h.id)

    def test_an_exception_counts_more_than_the_loss(self) -> None:
        with self.assertRaises(ZeroDivisionError):
            with self.client.hold("export", self.who, ttl=60) as h:
                self.server.force(h.id)
                1 / 0

    def test_server_away_until_the_deadline(self) -> None:
        """FAULTS row 6: the work is told before the slot can be given on, by the margin."""
        for mode in ("away", "swallow"):
            with self.subTest(mode), self.assertRaises(holdfast.HoldLost):
                with self.client.hold("export", self.who, ttl=3) as h:
                    self.gate.mode = mode
                    self.assertTrue(h.lost.wait(rig.GENEROUS))
                    told = time.time()
                    self.gate.mode = "open"
                    self.assertTrue(h.unsure)
                    end = self.server.get(h.id)
                    self.assertEqual(end["state"], "held", "lost is set while the slot is still ours")
                    self.assertLess(told, datetime.fromisoformat(end["expiresAt"]).timestamp())

    def test_server_away_for_a_while(self) -> None:
        with self.client.hold("export", self.who, ttl=6) as h:
            self.gate.mode = "away"
            rig.until(lambda: h.unsure, "a try to extend fails")
            self.gate.mode = "open"
            rig.until(lambda: not h.unsure, "it is extended again")
        self.assertEqual(self.state(h), "committed")

    def test_stopped_and_resumed(self) -> None:
        """FAULTS row 3: a worker that was stopped past its deadline is told when it goes on."""
        script = textwrap.dedent("""
            import sys, holdfast
            with holdfast.Client.from_env().hold("export", sys.argv[1], ttl=2) as h:
                print(h.id, flush=True)
                sys.stdin.readline()
                h.raise_if_lost()
                print("went on", flush=True)
        """)
        run = subprocess.Popen([sys.executable, "-c", script, self.who], env=self.server.env, cwd=os.path.dirname(holdfast.__file__),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert run.stdin and run.stdout and run.stderr
        self.addCleanup(run.kill)
        hold_id = run.stdout.readline().strip()
        run.send_signal(signal.SIGSTOP)
        rig.until(lambda: self.server.get(hold_id)["state"] == "expired", "the hold expires")
        run.stdin.write("\n")
        run.stdin.flush()
        run.send_signal(signal.SIGCONT)
        out, err = run.communicate(timeout=rig.GENEROUS)
        self.assertNotIn("went on", out)
        self.assertIn("HoldLost", err)

    def test_the_larger_of_two_clocks(self) -> None:
        """FAULTS row 7: after a suspend the monotonic clock has not moved; a wall clock set back is nothing."""
        at = holdfast._Instant()
        with mock.patch.object(time, "time", lambda: at.wall + 600):
            self.assertGreaterEqual(at.age(), 600)
        with mock.patch.object(time, "time", lambda: at.wall - 600), mock.patch.object(time, "monotonic", lambda: at.steady + 7):
            self.assertEqual(at.age(), 7)


class TestAnswersLost(rig.Case):
    def test_one_hold_for_one_act(self) -> None:
        """FAULTS row 2: the same key over all repetitions."""
        self.gate.mode = "swallow"
        threading.Thread(target=lambda: (rig.until(lambda: self.gate.lost > 1, "answers are lost"), setattr(self.gate, "mode", "open"))).start()
        with self.client.hold("export", self.who, wait=30, ttl=20) as h:
            self.assertEqual([x["id"] for x in self.server.holds(self.who)], [h.id])
        keys = {key for _, key, _ in self.gate.paths("/v1/reservations")}
        self.assertEqual(len(keys), 1, "one key")
        self.assertNotIn(None, keys)

    def test_settled_once(self) -> None:
        with self.client.hold("spend", self.who, cost=4, ttl=20) as h:
            self.gate.mode = "swallow"
            threading.Thread(target=lambda: (rig.until(lambda: self.state(h) == "committed", "committed"), setattr(self.gate, "mode", "open"))).start()
        self.assertEqual(self.server.get(h.id)["charged"], 4)

    def test_charged_once(self) -> None:
        self.gate.mode = "swallow"
        threading.Thread(target=lambda: (rig.until(lambda: self.gate.lost > 1, "answers are lost"), setattr(self.gate, "mode", "open"))).start()
        self.assertEqual(self.client.check("spend", self.who, cost=4).limits[0]["used"], 4)


if __name__ == "__main__":
    unittest.main()
