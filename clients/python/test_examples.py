"""The examples run, and do what their text says."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import unittest

import holdfast
import rig

EXAMPLES = rig.ROOT / "examples"


class TestExamples(unittest.TestCase):
    def setUp(self) -> None:
        self.server = rig.shared()
        self.dir = pathlib.Path(self.enterContext(rig.tempfile.TemporaryDirectory()))
        (self.dir / "bin").mkdir()
        (self.dir / "bin" / "holdfast").symlink_to(pathlib.Path(self.server.binary).resolve())
        self.env = self.server.env | {"PATH": f"{self.dir / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(rig.ROOT / "clients" / "python")}

    def run_shell(self, line: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["/bin/sh", "-c", line], env=self.env | env, cwd=self.dir, capture_output=True, text=True, timeout=rig.GENEROUS)

    def cron_lines(self) -> list[str]:
        """The commands of the crontab, with its files in our folder."""
        text = (EXAMPLES / "shell" / "crontab").read_text().replace("/opt/reports", str(EXAMPLES / "shell")).replace("/var/reports", str(self.dir))
        return [line.split(None, 5)[5] for line in text.splitlines() if line[:1].isdigit() or line.startswith("*")]

    def test_cron(self) -> None:
        often, nightly = self.cron_lines()
        token = self.dir / "token"
        token.write_text(self.server.token)
        env = {"HOLDFAST_TOKEN": "", "HOLDFAST_TOKEN_FILE": str(token)}
        done = self.run_shell(often, **env)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertRegex((self.dir / "now.txt").read_text(), r"^report of 20.*Z, slot 0, fence \d+\n")

        client = holdfast.Client(self.server.url, self.server.token)
        self.addCleanup(client.close)
        (self.dir / "now.txt").unlink()
        with client.hold("export", "user:reports"), client.hold("export", "user:reports"):
            self.assertEqual(self.run_shell(often, **env).returncode, 0, "another run holds the slot: content")
            self.assertFalse((self.dir / "now.txt").exists())
        self.assertEqual(self.run_shell(nightly, **env).returncode, 0)
        self.assertTrue((self.dir / "night.txt").exists())

    def test_report_refuses_a_lower_fence(self) -> None:
        report = EXAMPLES / "shell" / "report.sh"
        (self.dir / "r.txt.slot-0.fence").write_text("1000\n")
        for fence, code in (("999", 1), ("1000", 0), ("1001", 0)):
            done = self.run_shell(f"{report} r.txt", HOLDFAST_SLOT="0", HOLDFAST_FENCE=fence)
            self.assertEqual(done.returncode, code, f"fence {fence}: {done.stderr}")
        self.assertNotEqual(self.run_shell(f"{report} r.txt").returncode, 0, "without holdfast exec it does nothing")

    def test_python_worker(self) -> None:
        for name in ("a", "b"):
            (self.dir / name).write_text("one\ntwo\n")
        out = self.dir / "out"
        out.mkdir()
        args = [sys.executable, str(EXAMPLES / "python" / "worker.py"), "user:worker", str(out), str(self.dir / "a"), str(self.dir / "b")]
        done = subprocess.run(args, env=self.env, capture_output=True, text=True, timeout=rig.GENEROUS)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(p.name, p.read_text()) for p in sorted(out.iterdir())], [("a", "ONE\nTWO\n"), ("b", "ONE\nTWO\n")])
        self.assertRegex(done.stdout, r"^a: 2 parts, slot 0, fence \d+\nb: 2 parts, slot 0, fence \d+\n$")
        self.assertEqual(len(self.server.holds("user:worker", "committed")), 2)


if __name__ == "__main__":
    unittest.main()
