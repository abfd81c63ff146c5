#!/usr/bin/env python3
"""A worker that exports files, never more at once than the limit allows.

    export HOLDFAST_TOKEN="$(holdfast token)"
    PYTHONPATH=clients/python python3 examples/python/worker.py user:u_42 OUT_FOLDER FILE...

Each file is exported under a hold of its own. A hold that is lost stops its file, which is left
for the next run; nothing half done is left in the folder.
"""

from __future__ import annotations

import pathlib
import sys

import holdfast


def export(source: pathlib.Path, folder: pathlib.Path, hold: holdfast.Hold) -> int:
    """Write source in capitals, part by part; says how many parts there were."""
    target, draft = folder / source.name, folder / f".{source.name}.{hold.id}"
    parts = 0
    try:
        with source.open() as lines, draft.open("w") as out:
            for line in lines:
                hold.raise_if_lost()  # before each side effect
                out.write(line.upper())
                parts += 1
        hold.raise_if_lost()
        draft.rename(target)
    finally:
        draft.unlink(missing_ok=True)
    return parts


def main(subject: str, folder: str, *files: str) -> int:
    left = 0
    with holdfast.Client.from_env() as client:
        for name in files:
            source = pathlib.Path(name)
            try:
                with client.hold("export", subject, wait=60, ttl=30, owner="worker", labels={"file": source.name}) as hold:
                    parts = export(source, pathlib.Path(folder), hold)
                    print(f"{source.name}: {parts} parts, slot {hold.slot}, fence {hold.fence}")
            except holdfast.NoFreeSlot as full:
                print(f"{source.name}: no slot within a minute; {len(full.holders)} holders are known", file=sys.stderr)
                left += 1
            except (holdfast.HoldLost, holdfast.Unavailable) as err:
                print(f"{source.name}: left for the next run: {err}", file=sys.stderr)
                left += 1
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
