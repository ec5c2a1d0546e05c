"""presenter.py SOCKET MOUNT PATH UNSAVED ready|refusing|silent: an editor with coordination.

It shows one item, holds an unsaved text, saves it on request, and prints every message.
"""
import http.client, json, os, socket, sys

address, mount, path, unsaved, manner = sys.argv[1:]


class Local(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(address)


def post(route, **message):
    connection = Local("localhost")
    connection.request("POST", "/v1/" + route, json.dumps(message))
    return connection.getresponse()


steps = ["relinquish-to-reader", "relinquish-to-writer", "save-changes", "accommodate-deletion",
         "accommodate-subitem-deletion", "accommodate-eviction"]
for line in post("clients", name="editor", process=os.getpid(), answerTime=3):
    news = json.loads(line[6:]) if line.startswith(b"data: ") else {}
    if news.get("kind") == "registered":
        client = news["client"]
        post("presenters", client=client, path=path, abilities=steps).read()
        print("shown", flush=True)
    elif "kind" in news:
        print(news["kind"], *news.get("steps", []), *(news[key] for key in ("oldPath", "path") if key in news), flush=True)
    if "fields" in news:
        print("fields", *news["fields"], flush=True)
    if news.get("kind") == "ask" and manner != "silent":
        if "save-changes" in news["steps"] and unsaved:
            with open(os.path.join(mount, path), "w") as file:
                file.write(unsaved + "\n")
            unsaved = ""
        refusal = {"refusal": "not now"} if manner == "refusing" else {}
        post("presenters/answer", client=client, question=news["question"], **refusal).read()
