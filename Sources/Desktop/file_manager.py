"""Shows the state of documents in Nautilus, Nemo and Caja, and adds the commands of ubiquity to their menus.

The package installs this file into the extension folder of each file manager. The state of a file comes from its
extended attributes `user.ubiquity.*`, a read that never downloads. Changes come from the event stream of the mount's
daemon, so nothing is polled.
"""

import collections
import json
import os
import sys
import time
import urllib.parse

import gi

PROGRAM = "ubiquity"
DIALOG = "ubiquity-dialog"
# Files whose emblems are kept current. The file manager asks again for those it shows later.
MOST_FILES = 20_000
# Seconds between attempts to reach a daemon that does not answer.
PAUSE = 5
# Bytes of one event.
LONGEST_EVENT = 1 << 20
# Characters of an error that a dialog shows.
LONGEST_MESSAGE = 4_000


def file_manager():
    """The module of the file manager that loads this file, by the name of its process."""
    with open("/proc/self/comm") as name:
        process = name.read().strip()
    for module, versions in (("Nautilus", ("4.0", "3.0")), ("Nemo", ("3.0",)), ("Caja", ("2.0",))):
        if module.lower() in process:
            for version in versions:
                try:
                    gi.require_version(module, version)
                    break
                except ValueError:
                    continue
            return getattr(__import__("gi.repository", fromlist=[module]), module)
    raise ImportError(f"{process} is not a file manager that this extension knows")


class State:
    """The state of one item: an emblem and a word for the column."""

    EMBLEMS = {
        "conflict": ("ubiquity-conflict", "Conflict"),
        "error": ("ubiquity-error", "Error"),
        "excluded": ("ubiquity-excluded", "Not synced"),
        "syncing": ("ubiquity-syncing", "Syncing"),
        "waiting": ("ubiquity-syncing", "Waiting to upload"),
        "pinned": ("ubiquity-pinned", "Kept here"),
        "cloud": ("ubiquity-cloud", "In the cloud"),
        "here": ("ubiquity-here", "Here"),
    }

    @staticmethod
    def attribute(path, name):
        try:
            return os.getxattr(path, "user.ubiquity." + name).decode("utf-8", "replace")
        except OSError:
            return ""

    @classmethod
    def of(cls, path):
        """The name of the state; None for an item outside of a container."""
        if not cls.attribute(path, "container"):
            return None
        is_set = lambda name: cls.attribute(path, name) == "1"
        if is_set("has-unresolved-conflicts"):
            return "conflict"
        if cls.attribute(path, "uploading-error") or cls.attribute(path, "downloading-error"):
            return "error"
        if is_set("is-excluded-from-sync"):
            return "excluded"
        if is_set("is-uploading") or is_set("is-downloading"):
            return "syncing"
        if not is_set("is-uploaded"):
            return "waiting"
        if is_set("is-pinned"):
            return "pinned"
        return "cloud" if cls.attribute(path, "downloading-status") == "not-downloaded" else "here"


class Mounts:
    """The containers that are mounted: mount point and state folder, from the kernel's table."""

    TABLE = "/proc/self/mountinfo"
    # Seconds until the table is read again. Without a limit, a folder with 10,000 files would read it 10,000 times.
    AGE = 1
    known = (float("-inf"), {})

    @classmethod
    def read(cls):
        read_at, mounts = cls.known
        if time.monotonic() - read_at < cls.AGE:
            return mounts
        mounts = {}
        with open(cls.TABLE, encoding="utf-8", errors="surrogateescape") as table:
            for line in table:
                fields = line.rstrip("\n").split(" ")
                dash = fields.index("-")
                if fields[dash + 1] == "fuse.ubiquity":
                    mounts[cls.decoded(fields[4])] = cls.decoded(fields[dash + 2])
        cls.known = (time.monotonic(), mounts)
        return mounts

    @staticmethod
    def decoded(text):
        """The kernel writes space, tab, line feed and backslash as a backslash and three octal digits."""
        parts = text.split("\\")
        return parts[0] + "".join(chr(int(part[:3], 8)) + part[3:] for part in parts[1:])

    @classmethod
    def containing(cls, path):
        """The mount point above a path; None if there is none."""
        inside = [point for point in cls.read() if path == point or path.startswith(point + "/")]
        return max(inside, key=len, default=None)


class EventStream:
    """Reads the events of one mount, and calls back with the path of each item that changed.

    It works in the file manager's main loop. A thread would stand still: the file managers keep Python's lock.
    """

    def __init__(self, mount_point, state_folder, changed, ended):
        self.mount_point, self.changed, self.ended = mount_point, changed, ended
        # A path in /proc keeps the address short, whatever the length of the folder's path.
        self.folder = os.open(state_folder, os.O_PATH | os.O_DIRECTORY)
        address = Gio.UnixSocketAddress.new(f"/proc/self/fd/{self.folder}/control.sock")
        Gio.SocketClient().connect_async(address, None, self.connected)

    def connected(self, client, result):
        try:
            self.connection = client.connect_finish(result)
            request = b"GET /v1/events HTTP/1.0\r\nHost: localhost\r\n\r\n"
            self.connection.get_output_stream().write_all(request, None)
        except GLib.Error:
            return self.end()
        self.lines = Gio.DataInputStream.new(self.connection.get_input_stream())
        self.read()

    def read(self):
        self.lines.read_line_async(GLib.PRIORITY_DEFAULT_IDLE, None, self.arrived)

    def arrived(self, lines, result):
        try:
            line, length = lines.read_line_finish(result)
            if line is None or length > LONGEST_EVENT:
                return self.end()
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                for path in {event.get("path"), event.get("oldPath")} - {None}:
                    self.changed(os.path.join(self.mount_point, path))
        except (GLib.Error, ValueError, AttributeError, TypeError):
            # The daemon ended, or answered nonsense.
            return self.end()
        self.read()

    def end(self):
        """The next item that is shown begins another stream, but not at once."""
        os.close(self.folder)
        GLib.timeout_add_seconds(PAUSE, self.ended, self.mount_point)


class ShownFiles:
    """The files that the file manager shows, by path. A change of one is passed on to the file manager."""

    def __init__(self, invalidate):
        self.files = collections.OrderedDict()
        self.streams = {}
        self.invalidate = invalidate

    def add(self, path, file):
        self.files[path] = file
        self.files.move_to_end(path)
        while len(self.files) > MOST_FILES:
            self.files.popitem(last=False)
        mount_point = Mounts.containing(path)
        if mount_point and mount_point not in self.streams:
            try:
                self.streams[mount_point] = EventStream(
                    mount_point, Mounts.read()[mount_point], self.changed, self.ended)
            except OSError:
                # The state folder belongs to another user: the state shows, but does not change by itself.
                self.streams[mount_point] = None

    def ended(self, mount_point):
        self.streams.pop(mount_point, None)
        return False

    def changed(self, path):
        """The item and the folders above it have new states."""
        while path not in ("", "/"):
            file = self.files.get(path)
            if file is not None:
                self.invalidate(file)
            path = os.path.dirname(path)


MODULE = file_manager()
from gi.repository import Gio, GLib, GObject  # noqa: E402  the file manager's own version must be chosen before


def path_of(file):
    """The local path of a file; None for one on another machine."""
    uri = urllib.parse.urlsplit(file.get_uri())
    return urllib.parse.unquote(uri.path, errors="surrogateescape") if uri.scheme == "file" else None


class UbiquityExtension(
    GObject.GObject, MODULE.InfoProvider, MODULE.ColumnProvider, MODULE.MenuProvider
):
    """The extension, as a file manager loads it."""

    COLUMN = "ubiquity-state"

    def __init__(self):
        super().__init__()
        self.shown = ShownFiles(lambda file: file.invalidate_extension_info())

    # Nemo stalls after the first file with the asynchronous call. An update takes some microseconds.
    def update_file_info(self, file):
        path = path_of(file)
        if path is None or Mounts.containing(path) is None:
            return MODULE.OperationResult.COMPLETE
        state = State.of(path)
        if state:
            emblem, word = State.EMBLEMS[state]
            file.add_emblem(emblem)
            file.add_string_attribute(self.COLUMN, word)
            self.shown.add(path, file)
        return MODULE.OperationResult.COMPLETE

    def get_columns(self):
        return [
            MODULE.Column(
                name="UbiquityExtension::state", attribute=self.COLUMN, label="Cloud",
                description="Whether the document is here, in the cloud, or in conflict")
        ]

    # Nautilus 4 passes no window.
    def get_file_items(self, *arguments):
        paths = [path_of(file) for file in arguments[-1]]
        if not paths or None in paths or any(Mounts.containing(path) is None for path in paths):
            return []
        states = {State.of(path) for path in paths}
        entries = []
        if states & {"cloud", "error"}:
            entries.append(("Download", "Download the content now", [PROGRAM, "download"]))
        if states != {"pinned"}:
            entries.append(("Keep Here", "Download, and keep on this device", [PROGRAM, "pin"]))
        if "pinned" in states:
            entries.append(("Do Not Keep Here", "Allow the content to be removed for space", [PROGRAM, "unpin"]))
        if states & {"here", "pinned"}:
            entries.append(("Remove Download", "Free the space; the document stays in the cloud", [PROGRAM, "evict"]))
        if len(paths) == 1:
            if os.path.isfile(paths[0]):
                entries.append(("Versions…", "See and restore earlier versions", [DIALOG, "versions"]))
            if "conflict" in states:
                entries.append(("Resolve…", "Choose between versions", [DIALOG, "resolve"]))
            entries.append(("Copy Link…", "Publish the document, and copy the link", [DIALOG, "link"]))
        return [self.item(number, entry, paths) for number, entry in enumerate(entries)]

    def get_background_items(self, *arguments):
        return []

    def item(self, number, entry, paths):
        label, tip, command = entry
        item = MODULE.MenuItem(name=f"UbiquityExtension::{number}", label=label, tip=tip)
        item.connect("activate", lambda _: self.run(command, paths))
        return item

    def run(self, command, paths):
        """Runs a command; the dialog shows its errors."""
        try:
            process = Gio.Subprocess.new(
                command + ["--"] + paths, Gio.SubprocessFlags.STDERR_PIPE | Gio.SubprocessFlags.STDOUT_SILENCE)
            process.communicate_utf8_async(None, None, self.ended, command[0])
        except GLib.Error as error:
            self.report(f"cannot run {command[0]}: {error.message}")

    def ended(self, process, result, program):
        try:
            _, _, text = process.communicate_utf8_finish(result)
        except GLib.Error as error:
            text = error.message
        # The dialog shows its errors itself.
        if program != DIALOG and not process.get_successful():
            self.report(text or f"{program} failed")

    def report(self, text):
        try:
            Gio.Subprocess.new([DIALOG, "error", "--", text[:LONGEST_MESSAGE]], Gio.SubprocessFlags.NONE)
        except GLib.Error as error:
            print(f"ubiquity: {text} ({error.message})", file=sys.stderr)
