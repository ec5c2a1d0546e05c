"""presenter.py STATE MOUNT PATH UNSAVED ready|refusing|silent: an editor with coordination.

It shows one item, holds an unsaved text, saves it on request, and prints every message.
"""
import os, sys, threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../Sources/Python"))
import ubiquity

state, mount, path, unsaved, manner = sys.argv[1:]


shown = threading.Event()


class Editor(ubiquity.Presenter):
    unsaved = unsaved

    def message(self, news):
        shown.wait()
        print(news["kind"], *news.get("steps", []), *(news[key] for key in ("oldPath", "path") if key in news), flush=True)
        if "fields" in news:
            print("fields", *news["fields"], flush=True)

    def agree(self, *_):
        if manner == "refusing":
            raise RuntimeError("not now")

    relinquish_to_reader = relinquish_to_writer = accommodate_deletion = agree
    accommodate_subitem_deletion = accommodate_eviction = agree

    def save_changes(self):
        if self.unsaved:
            with open(os.path.join(mount, path), "w") as file:
                file.write(self.unsaved + "\n")
            self.unsaved = ""
        self.agree()


client = ubiquity.Mount(mount, state).client("editor", 3)
if manner == "silent":
    client._answer = lambda *_: None
client.present(path, Editor())
print("shown", flush=True)
shown.set()
threading.Event().wait()
