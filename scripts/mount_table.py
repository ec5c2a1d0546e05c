"""The mount table of scripts/benchmark: operations on local files, on the mount and elsewhere.

Places take turns in every row and round of one run: the native file system beneath (the limit), the mount, the same
container without passthrough, libfuse's example passthrough_ll (the floor: what FUSE costs a C program that does
nothing), and the peers (peers.py). Each figure is the median of the rounds; the ratio is the native median divided by
the place's. No place uploads meanwhile (`ubiquity offline`, rclone's --vfs-write-back, JuiceFS's --writeback), because
this measures the disk and not the network.
"""

import mmap
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import time
from pathlib import Path

MIB = 1 << 20
LARGE = 256 * MIB
RANDOM_READS, RANDOM_WRITES = 20_000, 5_000
FILES = 2_000
SAVES = 100
WAL_TRANSACTIONS, ROLLBACK_TRANSACTIONS = 1_000, 60
BLOCK = bytes(range(256)) * 16


def timed(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def drop_caches():
    """ext4 searches past recently deleted inodes as long as their blocks are cached. The deletions of the last round
    would make each file of this one ten times as expensive, natively as well."""
    os.sync()
    if os.geteuid() == 0:
        Path("/proc/sys/vm/drop_caches").write_text("3")


def run(*command, cwd=None):
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stderr.strip() or done.stdout.strip()}")


class Rows:
    """One round of all rows in one folder; each method measures a row, or prepares some, and returns seconds."""

    def __init__(self, folder, sources, seed):
        self.folder, self.sources, self.random = folder, sources, random.Random(seed)
        self.large, self.small = folder / "large", folder / "small"

    def sequential_write(self):
        block = self.random.randbytes(MIB)

        def work():
            with open(self.large, "wb", buffering=0) as file:
                for _ in range(LARGE // MIB):
                    file.write(block)
                os.fsync(file.fileno())

        return timed(work)

    def sequential_read(self):
        buffer = bytearray(MIB)

        def work():
            with open(self.large, "rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass

        work()
        return timed(work)

    def random_read(self):
        places = [self.random.randrange(LARGE // 4096) * 4096 for _ in range(RANDOM_READS)]
        file = os.open(self.large, os.O_RDONLY)
        try:
            return timed(lambda: [os.pread(file, 4096, place) for place in places])
        finally:
            os.close(file)

    def random_write(self):
        places = [self.random.randrange(LARGE // 4096) * 4096 for _ in range(RANDOM_WRITES)]

        def work():
            for place in places:
                os.pwrite(file, BLOCK, place)
            os.fsync(file)

        file = os.open(self.large, os.O_WRONLY)
        try:
            return timed(work)
        finally:
            os.close(file)

    def mapped_read(self):
        def work():
            with open(self.large, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
                for place in range(0, LARGE, MIB):
                    view[place:place + MIB]

        work()
        return timed(work)

    def create(self):
        self.small.mkdir()
        names = self.names()

        def work():
            for name in names:
                os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))

        return timed(work)

    def names(self):
        return [str(self.small / f"{number:05}") for number in range(FILES)]

    def stat(self):
        names = self.names()
        for name in names:
            os.stat(name)
        return timed(lambda: [os.stat(name) for _ in range(10) for name in names])

    def open_read_close(self):
        names = self.names()
        for name in names:
            with open(name, "wb", buffering=0) as file:
                file.write(BLOCK)

        def work():
            for name in names:
                file = os.open(name, os.O_RDONLY)
                os.read(file, 4096)
                os.close(file)

        work()
        return timed(work)

    def list_with_stat(self):
        def work():
            for _ in range(5):
                with os.scandir(self.small) as entries:
                    for entry in entries:
                        entry.stat()

        work()
        return timed(work)

    def rename(self):
        return timed(lambda: [os.rename(name, name + ".new") for name in self.names()])

    def unlink(self):
        return timed(lambda: [os.unlink(name + ".new") for name in self.names()])

    def atomic_save(self):
        path, new = self.folder / "document", self.folder / "document.tmp"

        def work():
            for _ in range(SAVES):
                with open(new, "wb", buffering=0) as file:
                    file.write(BLOCK)
                    os.fsync(file.fileno())
                os.rename(new, path)

        return timed(work)

    def sqlite_wal(self):
        return self.sqlite("wal", "NORMAL", WAL_TRANSACTIONS)

    def sqlite_rollback(self):
        return self.sqlite("delete", "FULL", ROLLBACK_TRANSACTIONS)

    def sqlite(self, mode, synchronous, count):
        connection = sqlite3.connect(self.folder / f"{mode}.db", isolation_level=None)
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)")

        def work():
            for number in range(count):
                connection.execute("INSERT INTO t (text) VALUES (?)", (f"row {number} " * 20,))

        try:
            return timed(work)
        finally:
            connection.close()

    def git_clone(self):
        return timed(lambda: run("git", "clone", "-q", "--no-hardlinks", self.sources.repository,
                                 self.folder / "clone"))

    def git_status(self):
        clone = self.folder / "clone"
        # Git reads every file again that is as old as its index to the second: nearly all files of the newest clone,
        # and none of the others. The first call writes a younger index.
        time.sleep(1.1)
        run("git", "status", cwd=clone)
        return timed(lambda: [run("git", "status", cwd=clone) for _ in range(5)])

    def grep(self):
        def work():
            run("grep", "-rc", "--include=*", "import", self.folder / "clone")

        work()
        return timed(work)

    def untar(self):
        (self.folder / "tree").mkdir()
        return timed(lambda: run("tar", "-xf", self.sources.archive, "-C", self.folder / "tree"))

    def remove_tree(self):
        return timed(lambda: run("rm", "-r", self.folder / "tree"))


# Title, method, amount of one round (for a rate), unit of the rate, goal of the ratio.
TABLE = [
    ("sequential write and fsync", "sequential_write", LARGE / MIB, "MiB/s", 0.9),
    ("sequential read, warm", "sequential_read", LARGE / MIB, "MiB/s", 0.95),
    ("random 4 KB read, warm", "random_read", RANDOM_READS, "/s", 0.95),
    ("random 4 KB write and fsync", "random_write", RANDOM_WRITES, "/s", 0.9),
    ("mmap read, warm", "mapped_read", LARGE / MIB, "MiB/s", 0.95),
    ("create", "create", FILES, "/s", 0.3),
    ("stat, warm", "stat", FILES * 10, "/s", 0.8),
    ("open, read 4 KB, close", "open_read_close", FILES, "/s", 0.2),
    ("readdir with stat, warm", "list_with_stat", FILES * 5, "/s", 0.8),
    ("rename", "rename", FILES, "/s", 0.3),
    ("unlink", "unlink", FILES, "/s", 0.3),
    ("atomic save (write, fsync, rename)", "atomic_save", SAVES, "/s", 0.5),
    ("SQLite transactions, WAL", "sqlite_wal", WAL_TRANSACTIONS, "/s", 0.9),
    ("SQLite transactions, rollback journal", "sqlite_rollback", ROLLBACK_TRANSACTIONS, "/s", None),
    ("git clone", "git_clone", 1, "/s", 0.5),
    ("git status", "git_status", 5, "/s", 0.8),
    ("grep -r, warm", "grep", 1, "/s", None),
    ("untar", "untar", 1, "/s", None),
    ("rm -r", "remove_tree", 1, "/s", 0.3),
]


class Sources:
    """The sources to clone and unpack: this project, beside the places."""

    def __init__(self, root, scratch):
        self.repository, self.archive = scratch / "repository.git", scratch / "tree.tar"
        run("git", "clone", "-q", "--bare", "--no-hardlinks", root, self.repository)
        run("git", "-C", self.repository, "archive", "-o", self.archive, "HEAD")


def measure(places, sources, rounds, wanted):
    """Seconds by row and place, of all rounds; without the rows that a place cannot do."""
    found = {method: {name: [] for name in places} for _, method, *_ in TABLE}
    for number in range(rounds):
        rows = {}
        drop_caches()
        for name, place in places.items():
            folder = place / f"round{number}"
            folder.mkdir()
            rows[name] = Rows(folder, sources, number)
        order = list(places)
        for index, (_, method, *_) in enumerate(TABLE):
            # The order changes: the first place in a row measures while the disk still writes data of another.
            first = (index + number) % len(order)
            for name in order[first:] + order[:first]:
                if not wanted(method):
                    continue
                os.sync()
                try:
                    found[method][name].append(getattr(rows[name], method)())
                except (OSError, RuntimeError, sqlite3.Error) as error:
                    print(f"({method} fails on {name}: {error})", flush=True)
        for name, place in places.items():
            shutil.rmtree(place / f"round{number}", ignore_errors=True)
    return found


def show(found, places):
    others = [name for name in places if name != "native"]
    print(f"\n{'':<40}{'native':>16}" + "".join(f"{name:>24}" for name in others) + "   goal")
    for title, method, amount, unit, goal in TABLE:
        medians = {name: statistics.median(times) for name, times in found[method].items() if times}
        if "native" not in medians:
            continue
        line = f"{title:<40}{amount / medians['native']:>10,.1f} {unit:<5}"
        for name in others:
            if name in medians:
                rate = f"{amount / medians[name]:,.1f} {unit}"
                line += f"{rate:>16}{medians['native'] / medians[name]:>7.2f}x"
            else:
                line += f"{'-':>24}"
        print(line + (f"   {goal}" if goal else ""), flush=True)
