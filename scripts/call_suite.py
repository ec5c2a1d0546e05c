"""The same random calls natively and in a mount, for scripts/conformance: their results, and the files afterwards.

As a program (`call_suite.py FOLDER SEED COUNT`) it makes the calls in a folder and prints a line for each. As root it
makes a part of them as another user. It skips the known differences: sizes of folders, attributes of files (a saved
document keeps its own), descriptors by O_PATH, set-group-id without the right to execute.
"""

import ctypes
import errno
import fcntl
import hashlib
import mmap
import os
import random
import stat
import subprocess
import sys
from pathlib import Path

from suite_tools import LIMIT, Counts

SEEDS = (1, 2, 3, 4, 5, 6)
SHOWN = 20
NAMES = ["a", "b", "c", "d", "e", "é", "x" * 255, "y" * 256]
WEIGHTS = [30, 30, 30, 30, 30, 1, 1, 1]
DESCRIPTORS = 12
OTHER_USER = 65534
LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def described(status):
    size = "-" if stat.S_ISDIR(status.st_mode) else status.st_size
    return f"{status.st_mode:o} {status.st_nlink} {status.st_uid}:{status.st_gid} {size}"


class Calls:
    """Each public method makes a call, or a few, with random arguments, and returns the values that must be equal."""

    def __init__(self, seed):
        self.random, self.files = random.Random(seed), {}
        self.calls = [name for name in dir(self) if not name.startswith("_") and callable(getattr(self, name))]
        # Calls that create things are frequent, so that the others find some.
        self.calls += ["open_file"] * 8 + ["pwrite", "write", "pread", "make_folder", "rename", "link"] * 3

    def _draw(self):
        """All possible arguments of a call, also unused ones: so both places draw the same numbers."""
        one = self.random
        self.place = one.randrange(DESCRIPTORS)
        self.other_place = one.randrange(DESCRIPTORS)
        self.path, self.new = self._some_path(), self._some_path()
        self.offset = one.choice([0, 1, 100, 4095, 4096, 5000, 65536, one.randrange(300_000)])
        self.length = one.choice([0, 1, 7, 4096, 8192, one.randrange(1, 70_000)])
        self.data = one.randbytes(32) * (self.length // 32 + 1)
        self.number, self.chance = one.randrange(1 << 30), one.random()

    def _some_path(self):
        one = self.random
        path = "/".join(one.choices(NAMES, WEIGHTS, k=one.choice([1, 1, 1, 2, 2, 3])))
        return one.choices([path, path + "/", path + "/.", "./" + path, path + "/.."], [90, 3, 2, 3, 1])[0]

    def _file(self):
        if self.place not in self.files:
            raise OSError(errno.EBADF, "")
        return self.files[self.place]

    def _regular(self):
        if not stat.S_ISREG(os.fstat(self._file()).st_mode):
            raise OSError(errno.EBADF, "no file")
        return self._file()

    def _keep(self, descriptor):
        if self.place in self.files:
            os.close(self.files[self.place])
        self.files[self.place] = descriptor

    def _pick(self, *choices):
        return choices[self.number % len(choices)]

    # Open files.

    def open_file(self):
        flags = self._pick(os.O_RDONLY, os.O_WRONLY, os.O_RDWR) | os.O_NONBLOCK
        more = [os.O_CREAT, os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_TRUNC, os.O_APPEND, os.O_CREAT | os.O_TRUNC,
                os.O_DIRECTORY, os.O_NOFOLLOW, os.O_SYNC, 0]
        mode = [0o644, 0o600, 0o4755, 0o666, 0o444, 0][self.number // 100 % 6]
        self._keep(os.open(self.path, flags | more[self.number // 3 % len(more)], mode))

    def open_unnamed(self):
        self._keep(os.open(self._pick(self.path, "."), os.O_TMPFILE | os.O_RDWR, 0o640))

    def close(self):
        os.close(self.files.pop(self.place, -1))

    def pwrite(self):
        return os.pwrite(self._file(), self.data[:self.length], self.offset)

    def write(self):
        return os.write(self._file(), self.data[:self.length])

    def pread(self):
        return digest(os.pread(self._regular(), self.length, self.offset))

    def read(self):
        return digest(os.read(self._regular(), self.length))

    def seek(self):
        return os.lseek(self._regular(), self.offset, self._pick(os.SEEK_SET, os.SEEK_CUR, os.SEEK_END))

    def seek_data(self):
        """The offset may differ, but a seek must skip nothing but zeros."""
        file, size = self._regular(), os.fstat(self._regular()).st_size
        try:
            start = os.lseek(file, self.offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            start = size
        os.lseek(file, 0, os.SEEK_SET)
        return not os.pread(file, max(0, start - self.offset), self.offset).strip(b"\0")

    def truncate_open(self):
        os.ftruncate(self._file(), self.offset)

    def allocate(self):
        whole = self.chance < 0.5
        offset, length = (self.offset // 4096 * 4096, 4096) if whole else (self.offset, self.length)
        # With and without FALLOC_FL_KEEP_SIZE; PUNCH_HOLE; ZERO_RANGE.
        mode = self._pick(0, 1, 3, 16, 17)
        checked(LIBC.fallocate(self._file(), mode, ctypes.c_long(offset), ctypes.c_long(length)))

    def map_file(self):
        file = self._regular()
        size = os.fstat(file).st_size
        if size == 0:
            return "empty"
        kind = self._pick(mmap.MAP_SHARED, mmap.MAP_SHARED, mmap.MAP_PRIVATE)
        start = self.offset % size
        with mmap.mmap(file, size, flags=kind, prot=mmap.PROT_READ | mmap.PROT_WRITE) as view:
            end = min(size, start + self.length)
            view[start:end] = self.data[:end - start]
            return digest(view)

    def copy_range(self):
        source = self.files.get(self.other_place, -1)
        return os.copy_file_range(source, self._file(), self.length, self.offset, self.number % 100_000)

    def send(self):
        return os.sendfile(self._file(), self.files.get(self.other_place, -1), self.offset, self.length)

    def sync(self):
        os.fsync(self._file())

    def lock(self):
        fcntl.flock(self._file(), self._pick(fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_UN) | fcntl.LOCK_NB)

    def lock_range(self):
        kind = self._pick(fcntl.LOCK_SH | fcntl.LOCK_NB, fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_UN)
        fcntl.lockf(self._file(), kind, self.length, self.offset)

    def stat_open(self):
        return described(os.fstat(self._file()))

    def change_mode_open(self):
        os.fchmod(self._file(), self._pick(0o644, 0o6755, 0o600))

    def change_owner_open(self):
        os.fchown(self._file(), *self._owners())

    # Names.

    def stat(self):
        return described(os.stat(self.path))

    def lstat(self):
        return described(os.lstat(self.path))

    def access(self):
        return os.access(self.path, self._pick(0, 1, 2, 4, 7), effective_ids=True)

    def list_folder(self):
        return sorted((entry.name, entry.is_symlink()) for entry in os.scandir(self._pick(self.path, ".")))

    def unlink(self):
        os.unlink(self.path)

    def make_folder(self):
        os.mkdir(self.path, self._pick(0o755, 0o2775, 0o1777, 0o700, 0o777))

    def remove_folder(self):
        os.rmdir(self.path)

    def rename(self):
        os.rename(self.path, self.new)

    def rename_with_flags(self):
        # RENAME_NOREPLACE, RENAME_EXCHANGE, both.
        flags = self._pick(1, 2, 2, 3)
        checked(LIBC.renameat2(-100, self.path.encode(), -100, self.new.encode(), flags))

    def link(self):
        os.link(self.path, self.new, follow_symlinks=self.chance < 0.3)

    def link_open(self):
        os.link(f"/proc/self/fd/{self._file()}", self.new, follow_symlinks=True)

    def make_symlink(self):
        os.symlink(self._pick(self.new, self.new, "x" * 300), self.path)

    def read_symlink(self):
        return os.readlink(self.path)

    def make_node(self):
        os.mknod(self.path, self._pick(stat.S_IFIFO, stat.S_IFREG, stat.S_IFSOCK) | 0o640)

    def truncate(self):
        os.truncate(self.path, self.offset)

    def change_mode(self):
        os.chmod(self.path, self._pick(0o644, 0o4755, 0o2755, 0o1777, 0, 0o777))

    def change_owner(self):
        os.chown(self.path, *self._owners(), follow_symlinks=self.chance < 0.5)

    def _owners(self):
        # The kernel reports a chown to the same owner by another user like a write, if the file is open for writing.
        nobody = (-1, -1) if os.geteuid() == 0 else (-1, 1000)
        return self._pick((-1, 0), (0, -1), (OTHER_USER, -1), (OTHER_USER, 1000), nobody)

    def set_times(self):
        os.utime(self.path, ns=(self.number * 1_000_003, self.number * 7919), follow_symlinks=self.chance < 0.5)
        status = os.stat(self.path, follow_symlinks=self.chance < 0.5)
        return status.st_atime_ns, status.st_mtime_ns

    def _attribute(self):
        if not stat.S_ISDIR(os.stat(self.path).st_mode):
            raise OSError(errno.ENOTDIR, "")
        return self._pick("user.a", "user.b", "user.a", "user.b", "user." + "n" * 250, "user.", "trusted.t", "bogus.x")

    def set_attribute(self):
        os.setxattr(self.path, self._attribute(), self.data[:self.length % 100], [0, 0, 1, 2][self.number // 8 % 4])

    def get_attribute(self):
        return digest(os.getxattr(self.path, self._attribute()))

    def list_attributes(self):
        self._attribute()
        return [name for name in sorted(os.listxattr(self.path)) if not name.startswith("user.ubiquity.")]

    def remove_attribute(self):
        os.removexattr(self.path, self._attribute())

    # One of them.

    def _call(self):
        name = self.random.choice(self.calls)
        self._draw()
        is_other = self.random.random() < 0.25 and os.geteuid() == 0
        try:
            if is_other:
                os.seteuid(OTHER_USER)
            result = getattr(self, name)()
        except OSError as error:
            result = errno.errorcode.get(error.errno, error.errno)
        finally:
            if is_other:
                os.seteuid(0)
        who = " as another user" if is_other else ""
        return f"{name}{who} {self.place} {self.path[:40]} {self.new[:40]} {self.offset} {self.length}: {result}"


def tree():
    for folder, folders, files in os.walk("."):
        folders.sort()
        for name in sorted(folders + files):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            kept = Path(path).read_bytes() if stat.S_ISREG(status.st_mode) else b""
            yield f"{path[:200]} {described(status)} {digest(kept)}"


def main(folder, seed, count):
    os.chdir(folder)
    os.umask(0o022)
    calls = Calls(int(seed))
    for number in range(int(count)):
        print(number, calls._call())
        if number % 1000 == 999:
            print("\n".join(tree()))


def suite(place, count):
    failed, notes = 0, []
    for seed in SEEDS:
        folder = place.folder / f"seed{seed}"
        folder.mkdir()
        folder.chmod(0o777)
        done = subprocess.run(
            [sys.executable, __file__, folder, str(seed), str(count)], capture_output=True, text=True, timeout=LIMIT)
        lines = done.stdout.splitlines()
        is_other = place.differs(f"calls {seed}", lines)
        failed += int(is_other or done.returncode != 0)
        if done.returncode != 0:
            notes.append(done.stderr[-1000:])
        if is_other:
            pairs = [pair for pair in zip(place.native[f"calls {seed}"], lines) if pair[0] != pair[1]]
            notes += [f"seed {seed}: natively {one}; here {other}" for one, other in pairs[:SHOWN]]
    return Counts(len(SEEDS), failed, notes=notes)


if __name__ == "__main__":
    main(*sys.argv[1:])
