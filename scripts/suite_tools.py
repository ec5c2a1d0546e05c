"""Common parts of the suites of scripts/conformance."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

# The longest that one program of a suite may take (seconds); pjdfstest sleeps for minutes.
LIMIT = 3600


class Skipped(Exception):
    """A suite that is not installed."""


@dataclass
class Counts:
    """The counts of a suite; `notes` are printed beneath its line."""

    run: int
    failed: int = 0
    skipped: int = 0
    notes: list = field(default_factory=list)


def find(variable, name):
    given = os.environ.get(variable)
    found = Path(given) if given else shutil.which(name)
    if not found or not Path(found).exists():
        raise Skipped(f"{name} is not installed (put it on PATH, or set {variable})")
    return Path(found)


def need(*names):
    missing = [name for name in names if not shutil.which(name)]
    if missing:
        raise Skipped(f"{', '.join(missing)} is not installed")


class Device:
    """One state folder and its mount."""

    def __init__(self, program, scratch, name, *options):
        self.program, self.name, self.options = program, name, options
        self.folder, self.home = scratch / name, scratch
        self.folder.mkdir()
        self.environment = dict(
            os.environ, UBIQUITY_STATE=str(scratch / f"state-{name}"), UBIQUITY_CLOUD_DATA=str(scratch / "cloud"),
            HOME=str(scratch), XDG_CONFIG_HOME=str(scratch / "config"))

    def call(self, *arguments, check=True):
        return subprocess.run(
            [self.program, *map(str, arguments)], env=self.environment, check=check, capture_output=True, text=True,
            timeout=LIMIT)

    def __enter__(self):
        others = ["-o", "allow_other"] if os.geteuid() == 0 else []
        self.call("mount", "--device", self.name, *others, *self.options, "--allow-mass-delete", self.folder)
        return self

    def __exit__(self, *_):
        self.call("unmount", self.folder, check=False)

    def status(self):
        for line in self.call("status", "--json").stdout.splitlines():
            status = json.loads(line)
            if status.get("mountPoint") == str(self.folder):
                return status
        raise RuntimeError(f"{self.folder} is not mounted any more")

    def memory(self):
        """MiB of memory that the daemon uses."""
        text = Path(f"/proc/{self.status()['processID']}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024

    def wait(self, *conditions, path=None, seconds=120):
        """Whether the conditions became true in that time."""
        done = self.call("wait", *conditions, "--timeout", seconds, path or self.folder, check=False)
        self.waited = done.stderr.strip()
        return done.returncode == 0


@dataclass
class Place:
    """Where a suite runs: natively (no device), or in a device's mount with another device beside it."""

    folder: Path
    scratch: Path
    device: Device = None
    other: Device = None
    # The suite's results on the native file system, by name.
    native: dict = None

    def differs(self, name, value):
        """Natively stores the value; in a mount returns whether the value differs."""
        if self.device is None:
            self.native[name] = value
        return self.native[name] != value
