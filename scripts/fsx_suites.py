"""fsx for scripts/conformance: alone, and with evictions and remote changes between its opens."""

import os
import subprocess
import time
from pathlib import Path

from suite_tools import LIMIT, Counts, Skipped, find

SEEDS = (1, 2, 3)
# fsx closes and opens its file once in so many operations; more than 200 pauses in a long run show nothing new.
PAUSE_EVERY, PAUSES = 1000, 200
# Between the close and the open, fsx writes to this file. In its mount namespace a pipe replaces it: fsx waits until
# the pipe is read, with its file closed, and the machine keeps its caches.
DROP_CACHES = "/proc/sys/vm/drop_caches"
# Seconds between two steps beside fsx, so that they do not use the whole machine.
STEP = 0.05
ARRIVES_WITHIN = 120


def start(place, name, seed, operations, *options, before=()):
    # Its logs, which it keeps open, are outside of the mount: there they would never be uploaded.
    logs = place.scratch / "logs"
    logs.mkdir(exist_ok=True)
    # Its report of a fault is larger than the buffer of a pipe without a reader.
    with open(logs / f"{name}.output", "w") as output:
        # 5 MB, so that a file has several chunks.
        return subprocess.Popen(
            [*before, find("FSX", "fsx"), "-q", "-N", str(operations), "-S", str(seed), "-l", "5000000",
             "-P", str(logs), *options, str(place.folder / name)], stdout=output, stderr=subprocess.STDOUT)


def end(place, name, process):
    """The report of a failure; empty after a success."""
    if process.wait(LIMIT) == 0:
        return []
    output = (place.scratch / "logs" / f"{name}.output").read_text(errors="replace")
    # The report begins with the fault; the thousands of operations before it follow.
    return [f"{name} ended with {process.returncode}: {output[:1500]}"]


def whole(place, seed, operations):
    name = f"fsx{seed}"
    return end(place, name, start(place, name, seed, operations))


def alone(place, operations):
    faults = [fault for seed in SEEDS for fault in whole(place, seed, operations)]
    return Counts(len(SEEDS), len(faults), notes=faults)


def beside(place, operations, seed):
    """Evictions of fsx's file and of others, and another device that changes files of this one."""
    if place.device is None:
        faults = whole(place, seed, operations)
        return Counts(1, len(faults), notes=faults)
    if os.geteuid() != 0:
        raise Skipped("a pipe in the place of a file of /proc needs root")
    return Beside(place, operations, seed).run()


class Beside:
    def __init__(self, place, operations, seed):
        self.place, self.operations, self.seed = place, operations, seed
        self.name = f"fsx{seed}"
        self.here = place.folder / self.name
        self.there_folder = place.other.folder / place.folder.relative_to(place.device.folder)
        self.there = self.there_folder / self.name
        self.pipe = place.scratch / f"paused-{self.name}"
        self.faults, self.counts = [], dict.fromkeys(
            ("pauses", "evictions", "refused", "rewritten", "attributes", "files", "files evicted",
             "not sent yet"), 0)
        # The contents that the other device wrote into each of its files, the newest last.
        self.written = {}

    def run(self):
        os.mkfifo(self.pipe)
        if not self.arrives(self.there_folder.is_dir):
            raise RuntimeError("the other device does not see the folder")
        process = start(
            self.place, self.name, self.seed, self.operations,
            "-c", str(max(PAUSE_EVERY, self.operations // PAUSES)),
            before=["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"',
                    str(self.pipe), DROP_CACHES])
        released = ""
        try:
            while process.poll() is None:
                self.meanwhile()
                waiting = self.waiting(process)
                if waiting not in ("", released):
                    self.pause()
                    self.pipe.read_text()
                    released = waiting
                time.sleep(STEP)
        finally:
            self.end_pauses(process)
        self.faults += end(self.place, self.name, process)
        self.compare()
        if not self.counts["evictions"]:
            self.faults.append("its file was never evicted")
        notes = [", ".join(f"{count:,} {name}" for name, count in self.counts.items()), *self.faults]
        return Counts(1, len(self.faults), notes=notes)

    def waiting(self, process):
        """The child process by which fsx waits for the pipe; before the exec of fsx there may be others."""
        try:
            if not os.path.samefile(f"/proc/{process.pid}/exe", find("FSX", "fsx")):
                return ""
            return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        except OSError:
            return ""

    def end_pauses(self, process):
        if process.poll() is None:
            process.kill()
            # A writer that waits for a reader continues.
            os.close(os.open(self.pipe, os.O_RDONLY | os.O_NONBLOCK))
        self.pipe.unlink()

    def meanwhile(self):
        """The steps while fsx writes its open file."""
        name = f"beside{self.counts['files'] % 7}"
        self.counts["files"] += 1
        content = os.urandom(100_000)
        self.written.setdefault(name, []).append(content)
        (self.there_folder / name).write_bytes(content)
        self.set_attributes()
        self.counts["evictions" if self.evict(self.here) else "refused"] += 1
        for path in self.place.folder.glob("beside*"):
            self.counts["files evicted"] += self.evict(path)
            self.look_at(path)

    def look_at(self, path):
        """The content may be an earlier one, but must be one that was written, and whole."""
        try:
            if path.read_bytes() not in self.written[path.name]:
                self.faults.append(f"{path.name} has a content that nobody wrote")
        except BlockingIOError:
            # The file is listed before its content is uploaded.
            self.counts["not sent yet"] += 1

    def evict(self, path):
        return self.place.device.call("evict", path, check=False).returncode == 0

    def set_attributes(self):
        """Sets attributes on the other device, once it has the file; fsx's device must show them."""
        if not self.there.exists():
            return
        self.counts["attributes"] += 1
        self.there.chmod(0o600 + self.counts["attributes"] % 0o100)
        os.setxattr(self.there, "user.step", str(self.counts["attributes"]).encode())

    def pause(self):
        """The file is closed: fsx must not notice the changes of this pause."""
        self.counts["pauses"] += 1
        self.sends(self.place.device, self.here)
        self.expect(self.place.other.wait("--idle"), "has news for the other device without end")
        if self.counts["pauses"] % 3 == 0:
            self.rewrite()
        self.set_attributes()
        self.sends(self.place.other, self.there)
        self.expect(self.arrives(self.same_attributes), "does not show the attributes set on the other device")
        content = self.here.read_bytes()
        self.counts["evictions"] += self.evict(self.here)
        # fsx reads a part of it later; every other time it must find a placeholder.
        if self.counts["pauses"] % 2:
            self.expect(self.here.read_bytes() == content, "has another content after an eviction and a download")

    def rewrite(self):
        """The other device overwrites the file, which is read here, and then writes the old content again."""
        content = self.there.read_bytes()
        for written in (os.urandom(len(content) // 2 + 1), content):
            self.there.write_bytes(written)
            self.sends(self.place.other, self.there)
            self.expect(self.arrives(lambda: self.here.read_bytes() == written),
                        "does not have the content written on the other device")
        # Otherwise fsx's next change would be based on the earlier state.
        self.expect(self.place.device.wait("--idle"), f"has news without end: {self.place.device.waited}")
        self.counts["rewritten"] += 1

    def same_attributes(self):
        return (self.here.stat().st_mode == self.there.stat().st_mode
                and os.getxattr(self.here, "user.step") == os.getxattr(self.there, "user.step"))

    def arrives(self, condition):
        until = time.monotonic() + ARRIVES_WITHIN
        while time.monotonic() < until:
            try:
                if condition():
                    return True
            except OSError:
                # The name or the attribute is not here yet.
                pass
            time.sleep(0.01)
        return False

    def sends(self, device, path):
        """Waits for the upload: both devices change the file in turns, which would delay it otherwise."""
        self.expect(device.wait("--uploaded", path=path), f"was not uploaded by {device.name}: {device.waited}")

    def expect(self, holds, fault):
        if not holds:
            self.faults.append(f"{self.name} {fault} (pause {self.counts['pauses']})")

    def compare(self):
        """In the end both devices must have the same files, without a conflict."""
        for device in (self.place.device, self.place.other):
            self.expect(device.wait("--uploaded", "--idle"), f"leaves {device.name} with something to do")
        self.expect(self.arrives(lambda: self.here.read_bytes() == self.there.read_bytes()), "differs on two devices")
        self.expect(self.arrives(self.same_attributes), "has other attributes on two devices")
        self.expect(self.counts["attributes"] == int(os.getxattr(self.here, "user.step")), "lost an attribute")
        self.expect(os.getxattr(self.here, "user.ubiquity.conflict-count") == b"0", "is in conflict")
        for name, contents in self.written.items():
            if not self.arrives(lambda: (self.place.folder / name).read_bytes() == contents[-1]):
                self.faults.append(f"{name} is not what was written last")
        expected = {self.name, *self.written}
        for folder in (self.place.folder, self.there_folder):
            found = set(os.listdir(folder))
            self.expect(found == expected, f"has {', '.join(sorted(found ^ expected))} beside it or lacks it")
