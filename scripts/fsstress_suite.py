"""fsstress of xfstests for scripts/conformance: several processes make, rename and exchange folders and files,
which are removed at once during their upload. None of them may reappear."""

import subprocess

from suite_tools import LIMIT, Counts, find

SEEDS = (1, 2, 3)
OPERATIONS = 300
# Weights of the operations; renamed and exchanged folders are the most difficult case for a sync engine.
WEIGHTS = {"mkdir": 15, "rename": 15, "creat": 15, "rmdir": 3, "unlink": 5, "rexchange": 15}
SETTLES_WITHIN = 300
SHOWN = 5


def suite(place, processes):
    program = find("FSSTRESS", "fsstress")
    notes = []
    for seed in SEEDS:
        folder = place.folder / f"seed-{seed}"
        notes += [f"seed {seed}: {note}" for note in one(place, program, folder, processes, seed)]
    return Counts(len(SEEDS), len(notes), notes=notes)


def one(place, program, folder, processes, seed):
    """The failures; empty after a success."""
    folder.mkdir()
    weights = [part for name, weight in WEIGHTS.items() for part in ("-f", f"{name}={weight}")]
    done = subprocess.run(
        [program, "-z", *weights, "-p", str(processes), "-n", str(OPERATIONS), "-s", str(seed), "-d", str(folder)],
        cwd=place.scratch, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode != 0:
        return [f"fsstress ended with {done.returncode}: {(done.stderr + done.stdout)[-600:]}"]
    removed = subprocess.run(["rm", "-rf", str(folder)], capture_output=True, text=True, timeout=LIMIT)
    if removed.returncode != 0:
        return [f"rm -rf: {removed.stderr[:600]}"]
    if place.device is None:
        return []
    if not place.device.wait("--uploaded", "--idle", seconds=SETTLES_WITHIN):
        return [f"the deletions were not uploaded in {SETTLES_WITHIN} s: {place.device.waited}"]
    for device in (place.device, place.other):
        if device is not place.device and not device.wait("--idle", seconds=SETTLES_WITHIN):
            return [f"{device.name} had something to do after {SETTLES_WITHIN} s: {device.waited}"]
        seen = device.folder / folder.relative_to(place.device.folder)
        left = [str(path.relative_to(seen)) for path in seen.rglob("*")] if seen.exists() else None
        if left is not None:
            return [f"{device.name} shows the folder again, with {len(left)} entries: {', '.join(left[:SHOWN])}"]
    return []
