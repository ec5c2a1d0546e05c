"""Concurrent work of popular programs, for scripts/conformance: git, make and a tree of many small files.

Each does the same natively and in the mount, and the results must be equal to the byte.
"""

import hashlib
import os
import re
import shutil
import subprocess
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

from suite_tools import LIMIT, Counts, Skipped, need

COMMITS = 3000
CLONES = 4
COMMITS_PER_CLONE = 20
TREE_FILES = 50_000
TREE_PROCESSES = 4
# A fixed time and author, so that a commit has the same name everywhere, and no user settings.
GIT = dict(
    GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL="/dev/null", GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@example.org",
    GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@example.org", GIT_AUTHOR_DATE="1700000000 +0000",
    GIT_COMMITTER_DATE="1700000000 +0000")


def run(*command, folder, **variables):
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env=dict(os.environ, **variables), capture_output=True, text=True,
        errors="replace", timeout=LIMIT)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.returncode} {(done.stdout + done.stderr)[-1000:]}")
    return done.stdout


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digests(folder, is_wanted):
    files = (Path(top) / name for top, _, names in os.walk(folder) for name in names)
    return {str(path.relative_to(folder)): digest(path) for path in files if is_wanted(path)}


def git(place):
    """Concurrent clones, commits, pushes and repacks."""
    need("git")
    origin = make_repository(place.folder / "origin.git")
    with ThreadPoolExecutor(CLONES) as pool:
        faults = [fault for found in pool.map(lambda n: clone(place, origin, n), range(CLONES)) for fault in found]
    refs = run("git", "for-each-ref", folder=origin)
    if place.differs("refs", refs):
        faults.append("the repository that all pushed to has other branches than natively")
    for command in (("gc", "--quiet"), ("fsck", "--full", "--strict")):
        faults += attempt(lambda: run("git", *command, folder=origin, **GIT))
    return Counts(CLONES + 1, len(faults), notes=faults)


def attempt(work):
    try:
        work()
        return []
    except (RuntimeError, OSError) as error:
        return [str(error)]


def make_repository(origin):
    """A few thousand commits over some hundred files, through fast-import."""
    run("git", "init", "--quiet", "--bare", "--initial-branch=main", origin, folder=origin.parent, **GIT)
    stream = []
    for number in range(COMMITS):
        stream.append(f"commit refs/heads/main\ncommitter a <a@example.org> {1600000000 + number} +0000\n")
        stream.append(f"data <<END\ncommit {number}\nEND\n")
        for step in (1, 7, 31):
            name = number * step % 400
            body = "".join(f"{number} {line * number % 977}\n" for line in range(name % 60 + 1))
            stream.append(f"M 100644 inline part{name % 20}/file{name}\ndata {len(body)}\n{body}\n")
    subprocess.run(
        ["git", "fast-import", "--quiet"], cwd=origin, input="".join(stream), text=True, check=True, timeout=LIMIT)
    return origin


def clone(place, origin, number):
    return attempt(lambda: work_in_clone(place, origin, number))


def work_in_clone(place, origin, number):
    folder = place.folder / f"clone{number}"
    # Every other clone has hard links to the repository's files instead of own files.
    run("git", "clone", "--quiet", *(["--no-local"] if number % 2 else []), origin, folder, folder=place.folder, **GIT)
    run("git", "switch", "--quiet", "-c", f"work{number}", folder=folder, **GIT)
    for step in range(COMMITS_PER_CLONE):
        for name in range(10):
            (folder / f"work{name}").write_text(f"{number} {step} {name}\n" * 50)
        run("git", "add", "--all", folder=folder, **GIT)
        run("git", "commit", "--quiet", "-m", f"step {step}", folder=folder, **GIT)
    run("git", "push", "--quiet", "origin", "HEAD", folder=folder, **GIT)
    run("git", "gc", "--quiet", folder=folder, **GIT)
    run("git", "fsck", "--full", "--strict", folder=folder, **GIT)
    if run("git", "status", "--porcelain", folder=folder, **GIT):
        raise RuntimeError(f"clone {number} differs from its own commit")
    here = digests(folder, lambda path: ".git" not in path.parts)
    if place.differs(f"clone{number}", (run("git", "rev-parse", "HEAD", folder=folder), here)):
        raise RuntimeError(f"clone {number} has other files than natively")


def make(place):
    """busybox's 600 objects by make -j4; then a make without changes, and one after a touch."""
    need("make", "gcc")
    run("tar", "xf", busybox_source(place.scratch), folder=place.folder)
    folder, = place.folder.iterdir()
    make_once(folder, "defconfig")
    make_once(folder, "-j4")
    built = digests(folder, is_built)
    faults = [f"{name} is not what it is natively" for name in different(place, built)]
    made = (folder / "busybox").stat().st_mtime_ns
    make_once(folder, "-j4")
    if (folder / "busybox").stat().st_mtime_ns != made:
        faults.append("make makes again what is there")
    os.utime(folder / "libbb" / "messages.c")
    make_once(folder, "-j4")
    if digests(folder, is_built) != built or (folder / "busybox").stat().st_mtime_ns == made:
        faults.append("a touched file is not made again as it was")
    said = run("./busybox", "sha256sum", "busybox", folder=folder)
    if said.split()[0] != built["busybox"]:
        faults.append("the program that was made says something wrong")
    return Counts(len(built), len(faults), notes=faults)


def make_once(folder, *arguments):
    # Without the time of the build, the output is the same each time.
    return run("make", "-s", *arguments, folder=folder, KCONFIG_NOTIMESTAMP="1")


def is_built(path):
    return path.suffix in (".o", ".a") or path.name in ("busybox", "busybox_unstripped")


def different(place, built):
    if not place.differs("built", built):
        return []
    native = place.native["built"]
    return [name for name in sorted(native.keys() | built.keys()) if native.get(name) != built.get(name)]


def busybox_source(scratch):
    """$BUSYBOX, the archive of its source; otherwise Debian's copy, which apt fetches."""
    if given := os.environ.get("BUSYBOX"):
        return Path(given).resolve()
    folder = scratch / "busybox"
    if not folder.exists():
        need("apt-get")
        folder.mkdir()
        fetch_source(folder, "busybox")
    found = list(folder.glob("*.orig.tar.*"))
    if not found:
        raise Skipped("busybox's source cannot be fetched; set BUSYBOX to its archive")
    return found[0]


def fetch_source(folder, package):
    """With package lists of its own: most machines have none for sources, and theirs stay unchanged."""
    release = re.search(r"VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text())
    (folder / "lists/partial").mkdir(parents=True)
    (folder / "cache").mkdir()
    (folder / "sources.list").write_text(
        f"deb-src http://deb.debian.org/debian {release.group(1) if release else 'stable'} main\n")
    places = dict(sourcelist=folder / "sources.list", sourceparts="-")
    options = [f"-oDir::Etc::{name}={value}" for name, value in places.items()]
    options += [f"-oDir::State::lists={folder}/lists", f"-oDir::Cache={folder}/cache", "-oAPT::Sandbox::User=root"]
    for command in (["update"], ["source", "--download-only", package]):
        subprocess.run(["apt-get", "-qq", *options, *command], cwd=folder, capture_output=True, timeout=LIMIT)


def tree_content(number):
    return hashlib.sha256(str(number).encode()).digest() * (number % 40)


def tree_path(folder, number):
    """40 files for a package, some of them in a package of its own within it."""
    inner = ("", "lib", "dist/esm", "node_modules/inner/lib")[number % 4]
    return folder / "node_modules" / f"package{number // 40}" / inner / f"{number}.js"


def make_part(folder, start, stop):
    for number in range(start, stop):
        path = tree_path(folder, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tree_content(number))


def check_part(folder, start, stop):
    return sum(tree_path(folder, number).read_bytes() != tree_content(number) for number in range(start, stop))


def tree(place):
    size = TREE_FILES // TREE_PROCESSES
    parts = [(place.folder, first, first + size) for first in range(0, TREE_FILES, size)]
    with ProcessPoolExecutor(TREE_PROCESSES) as pool:
        for job in [pool.submit(make_part, *part) for part in parts]:
            job.result()
        # Most files are read by another process than their writer.
        wrong = sum(job.result() for job in [pool.submit(check_part, *part) for part in reversed(parts)])
    listed = sum(len(names) for _, _, names in os.walk(place.folder))
    # Files that cannot be removed remain, and are counted.
    shutil.rmtree(place.folder, ignore_errors=True)
    return Counts(TREE_FILES, wrong + abs(listed - TREE_FILES) + place.folder.exists())
