"""The coordination figures of scripts/benchmark: the cost of claims and presenters, and the delay of their messages.

The clients are processes of their own that speak HTTP to the mount's socket. Times are from the monotonic clock, which
all processes share. Every round of a run measures opens in three states: without clients, with one client that presents
another item (from then on every open is a claim), and with one client of 10,000 presenters.
"""

import contextlib
import http.client
import json
import os
import select
import socket
import statistics
import subprocess
import sys
import time

OPENS, ROUNDS = 2_000, 6
PRESENTERS = 10_000
EVENTS = 300
RELINQUISHES = 200


class Local(http.client.HTTPConnection):
    def __init__(self, address):
        super().__init__("localhost")
        self.address = address

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.address)

    def post(self, route, **message):
        self.request("POST", "/v1/" + route, json.dumps(message))
        return self.getresponse()


def client(address, folder, count):
    """The other process: presents `count` items of a folder, or the folder; prints each message with its time."""
    calls = Local(address)
    steps = ["relinquish-to-reader", "relinquish-to-writer"]
    for line in Local(address).post("clients", name="figures", process=os.getpid()):
        news = json.loads(line[6:]) if line.startswith(b"data: ") else {}
        if news.get("kind") == "registered":
            number = news["client"]
            paths = [f"{folder}/{n}" for n in range(count)] or [folder]
            for path in paths:
                calls.post("presenters", client=number, path=path, abilities=steps if count == 1 else []).read()
            print("ready", flush=True)
        elif news.get("kind") == "ask":
            calls.post("presenters/answer", client=number, question=news["question"]).read()
        elif news.get("kind") == "added":
            print(time.monotonic(), news["path"], flush=True)


class Client:
    """Runs `client` until the end of the block."""

    def __init__(self, address, folder, count):
        self.command = [sys.executable, __file__, address, folder, str(count)]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n", "the client could not register"
        return self.process.stdout

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def opens(path):
    """Microseconds of one open-read-close, of many."""
    start = time.perf_counter()
    for _ in range(OPENS):
        file = os.open(path, os.O_RDONLY)
        os.pread(file, 4096, 0)
        os.close(file)
    return (time.perf_counter() - start) / OPENS * 1e6


def opening(mount, address, report):
    times = {0: [], 1: [], PRESENTERS: []}
    for _ in range(ROUNDS):
        for count, found in times.items():
            with Client(address, "shown", count) if count else contextlib.nullcontext():
                # The first round fills the caches, and finishes the work that the client's start and end left.
                found += [opens(mount / "unrelated") for _ in range(4)][1:]
    base, one, many = (statistics.median(found) for found in times.values())
    report("open-read-close, no client", base, "µs")
    report("  with a claim that is accounted for", one, "µs")
    report("    more", (one / base - 1) * 100, "%", "goal 5")
    report(f"  with {PRESENTERS} presenters of other items", many, "µs")
    report("    more than with one", (many / one - 1) * 100, "%", "goal 0")


def events(mount, address, report):
    """The time from the creation of a file to the message at the presenter of its folder."""
    times = []
    with Client(address, "watched", 0) as heard:
        for number in range(EVENTS):
            start = time.monotonic()
            os.close(os.open(mount / "watched" / str(number), os.O_CREAT | os.O_WRONLY))
            if not select.select([heard], [], [], 10)[0]:
                raise RuntimeError("an event did not come")
            when, _ = heard.readline().split()
            times.append((float(when) - start) * 1000)
    times.sort()
    report("an event reaches a presenter: median", statistics.median(times), "ms", "goal 10")
    report("  99th percentile", times[int(len(times) * 0.99)], "ms")


def relinquishing(mount, address, report):
    """An open of a presented item: the presenter is asked and answers, and the open continues."""
    times = []
    with Client(address, "shown", 1):
        for _ in range(RELINQUISHES):
            start = time.perf_counter()
            os.close(os.open(mount / "shown" / "0", os.O_RDONLY))
            times.append((time.perf_counter() - start) * 1000)
    times.sort()
    report("relinquish round trip within an open: median", statistics.median(times), "ms", "goal 5")
    report("  99th percentile", times[int(len(times) * 0.99)], "ms")


def show(mount, address, report):
    for folder in ("shown", "watched"):
        (mount / folder).mkdir()
    for number in range(PRESENTERS):
        (mount / "shown" / str(number)).touch()
    (mount / "unrelated").write_bytes(bytes(4096))
    opening(mount, address, report)
    events(mount, address, report)
    relinquishing(mount, address, report)


if __name__ == "__main__":
    client(sys.argv[1], sys.argv[2], int(sys.argv[3]))
