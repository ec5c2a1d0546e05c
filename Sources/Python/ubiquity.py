"""Ubiquity for Python programs: item states, queries, events and coordination.

One file, standard library only: copy it beside the program, or install the package.

    import ubiquity

    mount = ubiquity.find("~/Ubiquity/Documents/note.txt")
    print(ubiquity.state("~/Ubiquity/Documents/note.txt").downloading_status)
    for item in mount.query("name like '*.txt' and not downloaded"):
        print(item["path"])
    with mount.client("editor") as client, client.reading("Documents/note.txt") as path:
        print(open(path).read())

Paths in answers start at the mount's folder, without a slash in front. Functions that take a path accept absolute paths,
paths relative to the working directory, and "~".
"""
import contextlib
import http.client
import json
import os
import queue
import socket
import stat
import struct
import threading

__all__ = [
    "Claim", "Client", "Mount", "Presenter", "State", "UbiquityError", "Unreachable", "download",
    "evict", "find", "mounts", "pin", "state", "unpin",
]

PREFIX = "user.ubiquity."
SOCKET = "control.sock"
#: Seconds to connect. A running daemon accepts at once.
CONNECT_TIME = 5
#: Seconds for an answer that waits for nothing.
ANSWER_TIME = 10
#: Bytes of one message.
LONGEST_LINE = 64 * 1024 * 1024
#: Steps that a presenter can carry out, with its methods.
STEPS = {
    "relinquish-to-reader": "relinquish_to_reader", "relinquish-to-writer": "relinquish_to_writer",
    "save-changes": "save_changes", "accommodate-deletion": "accommodate_deletion",
    "accommodate-subitem-deletion": "accommodate_subitem_deletion", "accommodate-eviction": "accommodate_eviction",
}


class UbiquityError(Exception):
    """A request failed. `code` names the kind, such as "notFound"; `message`, `place` and `remedy` explain it."""

    def __init__(self, code, message, place="", remedy=""):
        self.code, self.message, self.place, self.remedy = code, message, place, remedy
        super().__init__(message + (f": {place}" if place else "") + (f" ({remedy})" if remedy else ""))


class Unreachable(UbiquityError):
    """The path is in no mounted container, or the mount's daemon does not answer."""

    def __init__(self, message, place=""):
        super().__init__("unreachable", message, place, "mount the container with 'ubiquity mount'")


def _failure(message):
    return UbiquityError(
        message.get("code", "io"), message.get("message", "the request failed"), message.get("place", ""),
        message.get("remedy", ""))


# Mounts

def _unescaped(field):
    """A field of mountinfo: the kernel writes space, tab, newline and backslash in octal."""
    result, at = bytearray(), 0
    while at < len(field):
        digits = field[at + 1:at + 4]
        if field[at] == 0x5C and len(digits) == 3 and all(0x30 <= d <= 0x37 for d in digits):
            result.append(int(digits, 8) & 0xFF)
            at += 4
        else:
            result.append(field[at])
            at += 1
    return bytes(result)


def _table():
    """(mount point, state folder or None) of each mount, in the order of mounting."""
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            fields = line.split(b" ")
            if b"-" not in fields[6:]:
                continue
            dash = fields.index(b"-", 6)
            is_ours = _unescaped(fields[dash + 1]) == b"fuse.ubiquity"
            yield _unescaped(fields[4]), _unescaped(fields[dash + 2]) if is_ours else None


def mounts():
    """The mounted containers that are visible."""
    visible = {}
    for point, folder in _table():
        visible.pop(point, None)
        visible[point] = folder
    return [Mount(os.fsdecode(point), os.fsdecode(folder)) for point, folder in visible.items() if folder is not None]


def find(path):
    """The mount that holds a path. Raises `Unreachable` if no mount does."""
    place = _resolved(path)
    best, folder = b"", None
    for point, state_folder in _table():
        inside = place == point or place.startswith(point.rstrip(b"/") + b"/")
        if inside and len(point) >= len(best):
            best, folder = point, state_folder
    if folder is None:
        raise Unreachable("not in a mounted container", os.fsdecode(place))
    return Mount(os.fsdecode(best), os.fsdecode(folder))


def _resolved(path):
    """The absolute path; the last name's symlink is not followed."""
    path = os.path.abspath(os.path.expanduser(os.fspath(path)))
    folder, name = os.path.split(path)
    return os.fsencode(os.path.join(os.path.realpath(folder), name) if name else folder)


# Items, by extended attributes

class State:
    """An item's sync state as attributes: `is_uploaded`, `downloading_status`, `percent_downloaded` and so on.

    Flags are booleans, percentages numbers, other values texts; an attribute that does not apply is None.
    """

    def __init__(self, path):
        self.path = os.path.expanduser(os.fspath(path))
        self._values = {}
        for name in os.listxattr(self.path):
            if name.startswith(PREFIX):
                text = os.getxattr(self.path, name).decode("utf-8", "replace")
                key = name[len(PREFIX):].replace("-", "_")
                self._values[key] = self._value(key, text)

    @staticmethod
    def _value(key, text):
        if not text:
            return None
        if key.startswith(("is_", "has_")) or key == "download_requested":
            return text == "1"
        if key.startswith("percent_"):
            return float(text)
        return int(text) if key == "conflict_count" else text

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._values:
            raise AttributeError(f"no state '{name}'; known: {', '.join(sorted(self._values))}")
        return self._values[name]

    def __repr__(self):
        return f"State({self.path!r}, {self._values!r})"

    def as_dict(self):
        """All values by name."""
        return dict(self._values)


def state(path):
    """An item's sync state. It asks only the file system and downloads nothing. `OSError` if there is no such item."""
    return State(path)


def download(path):
    """Starts to download an item, or everything in a folder. Returns at once."""
    os.setxattr(os.path.expanduser(os.fspath(path)), PREFIX + "download", b"1")


def evict(path):
    """Removes an item's content from this device; the cloud keeps it."""
    os.setxattr(os.path.expanduser(os.fspath(path)), PREFIX + "evict", b"1")


def pin(path):
    """Keeps an item's content on this device always."""
    os.setxattr(os.path.expanduser(os.fspath(path)), PREFIX + "pinned", b"1")


def unpin(path):
    """Ends `pin`."""
    os.setxattr(os.path.expanduser(os.fspath(path)), PREFIX + "pinned", b"0")


# The local socket

class _Local(http.client.HTTPConnection):
    """HTTP over the daemon's Unix socket. It sends nothing to another user's daemon."""

    def __init__(self, folder, timeout):
        super().__init__("localhost")
        self._folder, self._limit = folder, timeout

    def connect(self):
        folder = os.stat(self._folder)
        if folder.st_uid != os.getuid() or folder.st_mode & 0o022:
            raise Unreachable("its state folder belongs to another user, or others may write to it", self._folder)
        address = os.path.join(self._folder, SOCKET)
        if not stat.S_ISSOCK(os.lstat(address).st_mode):
            raise Unreachable("its socket is not a socket", address)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self.sock.settimeout(CONNECT_TIME)
        # A socket's address has at most 107 bytes. A path through the folder's descriptor always fits.
        handle = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sock.connect(f"/proc/self/fd/{handle}/{SOCKET}")
        finally:
            os.close(handle)
        _, user, _ = struct.unpack("3i", self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user != os.getuid():
            raise Unreachable("its daemon belongs to another user", self._folder)
        self.sock.settimeout(self._limit)


class Mount:
    """A mounted container: requests to its daemon."""

    def __init__(self, mount_point, state_folder):
        self.mount_point, self.state_folder = mount_point, state_folder

    def __repr__(self):
        return f"Mount({self.mount_point!r})"

    def __eq__(self, other):
        return isinstance(other, Mount) and self.state_folder == other.state_folder

    def __hash__(self):
        return hash(self.state_folder)

    # Messages

    def _open(self, method, route, message, limit):
        connection = _Local(self.state_folder, limit)
        headers = {"connection": "close"}
        body = None
        if message is not None:
            body = json.dumps(message).encode()
            headers["content-type"] = "application/json"
        try:
            connection.request(method, route, body, headers)
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise Unreachable("its daemon does not answer, though it runs", self.mount_point) from error
            raise Unreachable(f"its daemon has ended ({error})", self.mount_point) from error
        if answer.status != 200:
            try:
                failure = json.loads(answer.read(LONGEST_LINE))
            except (OSError, ValueError, http.client.HTTPException):
                failure = {"message": f"the mount's daemon answered {answer.status}"}
            connection.close()
            raise _failure(failure)
        return connection, answer

    def call(self, route, message=None, method=None, limit=ANSWER_TIME):
        """Sends one message and returns the answer. Without a message it is a GET."""
        connection, answer = self._open(method or ("GET" if message is None else "POST"), route, message, limit)
        try:
            return json.loads(answer.read(LONGEST_LINE))
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Unreachable(f"its daemon broke off ({error})", self.mount_point) from error
        finally:
            connection.close()

    def lines(self, route, message=None, limit=None):
        """Sends one message and yields each message of the answer. The connection ends with the iteration."""
        connection, answer = self._open("GET" if message is None else "POST", route, message, limit)
        yield from _Stream(connection, answer, self.mount_point)

    def path(self, path):
        """The path of an item in the mount, as requests take it."""
        place = os.fsdecode(_resolved(os.path.join(self.mount_point, os.path.expanduser(os.fspath(path)))))
        inside = os.path.relpath(place, self.mount_point)
        if inside == ".":
            return ""
        if inside.startswith("../") or inside == "..":
            raise UbiquityError("notFound", "not in this container", place)
        return inside

    # Requests

    def status(self):
        """The mount's state: the cloud, pending transfers, problems."""
        return self.call("/v1/status")

    def items(self, *paths):
        """The states of items, as `ubiquity status --json PATH` prints them."""
        return list(self.lines("/v1/items/status", {"paths": [self.path(path) for path in paths]}))

    def download(self, *paths):
        """Downloads items and waits for them. Raises the first failure."""
        self._act("download", paths)

    def evict(self, *paths):
        """Removes items' contents from this device. Raises the first refusal."""
        self._act("evict", paths)

    def _act(self, action, paths):
        failed = None
        for result in self.lines("/v1/items/" + action, {"paths": [self.path(path) for path in paths]}):
            failed = failed or result.get("error")
        if failed:
            raise _failure(failed)

    def wait(self, *paths, uploaded=False, downloaded=False, idle=False, timeout=None):
        """Waits until the items, or the whole mount, are uploaded, downloaded or idle."""
        message = {"paths": [self.path(path) for path in paths], "uploaded": uploaded, "downloaded": downloaded,
                   "idle": idle}
        if timeout is not None:
            message["timeout"] = timeout
        report = {}
        for report in self.lines("/v1/wait", message):
            pass
        if report.get("failure"):
            raise _failure(report["failure"])
        return report

    def versions(self, path):
        """The versions of a file: the current one, conflicts and earlier ones."""
        return self.call("/v1/versions", {"paths": [self.path(path)]}, limit=None)["versions"]

    def query(self, predicate="", scopes=(), folder=None):
        """The items that meet a predicate, such as "name like '*.txt' and size > 10M"."""
        found = {}
        for news in self._query(predicate, scopes, folder, False):
            for record in news.get("added", []) + news.get("changed", []):
                found[record.get("itemID") or record["path"]] = record
            for gone in news.get("removed", []):
                found.pop(gone, None)
        return list(found.values())

    def watch(self, predicate="", scopes=(), folder=None):
        """Yields a query's messages: first the results ("items", then "gathered"), then each "update"."""
        return self._query(predicate, scopes, folder, True)

    def _query(self, predicate, scopes, folder, live):
        message = {"scopes": list(scopes), "predicate": predicate, "isLive": live}
        if folder is not None:
            message["folder"] = self.path(folder)
        return self.lines("/v1/queries", message)

    def events(self):
        """Yields the mount's events as they happen, without end. The first is "listening"; "overflow" means that
        events were left out."""
        return self.lines("/v1/events")

    def client(self, name, presenters_answer_within=ANSWER_TIME):
        """Registers this program for coordination. Use it with `with`."""
        return Client(self, name, presenters_answer_within)


class _Stream:
    """The messages of a streamed answer: JSON lines, or server-sent events."""

    def __init__(self, connection, answer, place):
        self._connection, self._answer, self._place = connection, answer, place

    def __iter__(self):
        is_event = (self._answer.getheader("content-type") or "").startswith("text/event-stream")
        try:
            while True:
                try:
                    line = self._answer.readline(LONGEST_LINE + 1)
                except TimeoutError as error:
                    raise Unreachable("its daemon does not answer, though it runs", self._place) from error
                except (OSError, ValueError, http.client.HTTPException):
                    # A daemon that ends closes its socket, with or without the last chunk.
                    return
                if not line:
                    return
                if len(line) > LONGEST_LINE:
                    raise UbiquityError("tooLarge", "the daemon sent a message that is too long", self._place)
                if is_event:
                    # An empty line ends a message, and ":" starts a keep-alive comment.
                    if not line.startswith(b"data: "):
                        continue
                    line = line[6:]
                if line.strip():
                    yield json.loads(line)
        finally:
            self.close()

    def close(self):
        self._connection.close()


# Coordination

class Presenter:
    """What a program does when others use an item that it shows. Override the methods you need.

    Each method returns when the step is done, and raises to refuse it. Messages arrive one after the other, on a thread
    of the client.
    """

    def relinquish_to_reader(self):
        """Another program wants to read the item: return once this program does not write it."""

    def relinquish_to_writer(self):
        """Another program wants to write the item: return once this program does not use it."""

    def reacquire(self):
        """The other program has finished."""

    def save_changes(self):
        """Save all unsaved changes."""

    def accommodate_deletion(self):
        """The item is about to be deleted: close it."""

    def accommodate_subitem_deletion(self, paths):
        """Items in the presented folder are about to be deleted."""

    def accommodate_eviction(self):
        """The item's content is about to leave this device."""

    def message(self, news):
        """Each message as the socket sends it: "ask", "changed", "moved", "version-gained" and so on. A request's own
        method follows."""


class Claim:
    """A granted claim. `paths` are the items' absolute paths now. It ends with `end` or the `with` statement."""

    def __init__(self, client, number, paths):
        self._client, self._number, self.paths = client, number, paths

    def end(self):
        """Gives the claim back. A second call does nothing."""
        number, self._number = self._number, None
        if number is not None:
            self._client._post("/v1/claims/end", claim=number)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


class Client:
    """This program's registration with a mount. Claims and presenters end with it."""

    def __init__(self, mount, name, answer_time):
        self.mount = mount
        self._presenters = {}
        # Messages for a presenter whose registration is not answered yet.
        self._early = {}
        self._registering = 0
        self._lock = threading.Lock()
        message = {"name": name, "process": os.getpid(), "answerTime": answer_time}
        connection, answer = mount._open("POST", "/v1/clients", message, None)
        self._connection = connection
        self._news = iter(_Stream(connection, answer, mount.mount_point))
        first = next(self._news, None)
        if not first or first.get("kind") != "registered":
            connection.close()
            raise Unreachable("its daemon does not register programs for coordination", mount.mount_point)
        self.number = first["client"]
        self._queue = queue.Queue()
        # Two threads: messages are read even while a presenter works.
        for work in (self._read, self._deliver):
            threading.Thread(target=work, name="ubiquity", daemon=True).start()

    def _post(self, route, limit=ANSWER_TIME, **message):
        return self.mount.call(route, {"client": self.number, **message}, limit=limit)

    def close(self):
        """Ends the registration."""
        with contextlib.suppress(UbiquityError):
            self._post("/v1/clients/leave")
        with contextlib.suppress(OSError):
            if self._connection.sock:
                self._connection.sock.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Claims

    def claim(self, items, presenter=None, seconds=None, purpose=None):
        """Waits for a claim on several items: tuples of path, "read" or "write", and options."""
        message = {
            "client": self.number,
            "items": [{"path": self.mount.path(item[0]), "use": item[1], "options": list(item[2:])} for item in items],
        }
        for key, value in (("presenter", presenter), ("seconds", seconds), ("purpose", purpose)):
            if value is not None:
                message[key] = value
        report = None
        for report in self.mount.lines("/v1/claims", message):
            pass
        if not report:
            raise Unreachable("its daemon ended during the wait", self.mount.mount_point)
        if report.get("failure"):
            raise _failure(report["failure"])
        paths = [os.path.join(self.mount.mount_point, path) for path in report["paths"]]
        return Claim(self, report["claim"], paths)

    @contextlib.contextmanager
    def reading(self, path, *options, **more):
        """Reads an item while no coordinated writer has it; gives its path."""
        with self.claim([(path, "read", *options)], **more) as claim:
            yield claim.paths[0]

    @contextlib.contextmanager
    def writing(self, path, *options, **more):
        """Writes an item that no other coordinated program uses meanwhile; gives its path."""
        with self.claim([(path, "write", *options)], **more) as claim:
            yield claim.paths[0]

    # Presenters

    def present(self, path, presenter):
        """Registers a presenter of an item, or of a folder with everything in it. Returns its number."""
        # A step that the presenter's class does not override needs no question.
        steps = [step for step, name in STEPS.items() if getattr(type(presenter), name) is not getattr(Presenter, name)]
        with self._lock:
            self._registering += 1
        try:
            number = self._post("/v1/presenters", path=self.mount.path(path), abilities=steps)["presenter"]
            with self._lock:
                self._presenters[number] = presenter
                for news in self._early.pop(number, []):
                    self._queue.put((presenter, news))
            return number
        finally:
            with self._lock:
                self._registering -= 1
                if not self._registering:
                    self._early.clear()

    def stop_presenting(self, number):
        """Unregisters a presenter."""
        with self._lock:
            self._presenters.pop(number, None)
        self._post("/v1/presenters/remove", presenter=number)

    def _read(self):
        for news in self._news:
            numbers = {news.get("presenter"), *news.get("presenters", []), *news.get("folderPresenters", [])} - {None}
            with self._lock:
                # An overflow concerns everybody.
                if news.get("kind") == "overflow":
                    numbers = set(self._presenters)
                for number in sorted(numbers):
                    if number in self._presenters:
                        self._queue.put((self._presenters[number], news))
                    elif self._registering:
                        self._early.setdefault(number, []).append(news)
        self._queue.put(None)

    def _deliver(self):
        while (entry := self._queue.get()) is not None:
            presenter, news = entry
            self._run(presenter.message, news)
            if news["kind"] == "ask":
                self._answer(presenter, news)
            elif news["kind"] == "reacquire":
                self._run(presenter.reacquire)

    @staticmethod
    def _run(method, *arguments):
        """A notification that fails must not end the thread; the program's own hook reports it."""
        try:
            method(*arguments)
        except Exception as error:  # noqa: BLE001
            threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, None)))

    def _answer(self, presenter, news):
        message = {"question": news["question"]}
        try:
            for step in news.get("steps", []):
                # A newer daemon may ask for a step that this file does not know.
                if step in STEPS:
                    arguments = [news.get("subitems", [])] if step == "accommodate-subitem-deletion" else []
                    getattr(presenter, STEPS[step])(*arguments)
        except Exception as error:  # noqa: BLE001
            message["refusal"] = str(error) or type(error).__name__
        with contextlib.suppress(UbiquityError):
            self._post("/v1/presenters/answer", **message)
