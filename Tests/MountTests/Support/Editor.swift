import Testing

/// An editor that takes part in coordination, in 40 lines of another language: it shows one item, holds an unsaved
/// text, saves it when asked, and prints all that it is told.
struct Editor {
    enum Manner: String {
        case ready, refusing, silent
    }

    let device: Device
    let command: Command

    /// Returns when it is registered.
    static func start(_ device: Device, _ path: String, unsaved: String = "", _ manner: Manner = .ready) async throws
        -> Editor
    {
        let socket = device.containerState + "/control.sock"
        let command = try device.world.start(
            ["/usr/bin/python3", "-c", program, socket, device.mountPoint, path, unsaved, manner.rawValue])
        try await device.world.eventually("the editor shows \(path)") { command.outputSoFar.contains("shown") }
        return Editor(device: device, command: command)
    }

    /// Like `start`; it also carries out lines of Python that it is given with `perform`.
    static func busy(_ device: Device, _ path: String) async throws -> Editor {
        let orders = device.world.folder + "/orders"
        try await device.world.shell("mkfifo '\(orders)'")
        let arguments = [device.containerState + "/control.sock", device.mountPoint, path, "", Manner.ready.rawValue]
        let command = try device.world.start(
            ["/bin/sh", "-c", "exec /usr/bin/python3 -c \"$0\" \"$@\" <> '\(orders)'", program] + arguments)
        try await device.world.eventually("the editor shows \(path)") { command.outputSoFar.contains("shown") }
        return Editor(device: device, command: command)
    }

    /// Has the editor do something itself, in the mount's root, and waits until it is done.
    func perform(_ line: String) async throws {
        let done = heard.filter { $0 == "did" }.count
        try await device.world.attempt(
            ["/bin/sh", "-ec", "printf '%s\\n' \"$1\" > '\(device.world.folder)/orders'", "sh", line])
        try await device.world.eventually("the editor does \(line): \(heard)") {
            heard.filter { $0 == "did" }.count > done
        }
    }

    /// The kinds of what it was told, each question with its steps, in order.
    var heard: [String] {
        command.outputSoFar.split(separator: "\n").dropFirst().map(String.init)
    }

    func waitUntilHeard(_ line: String) async throws {
        try await device.world.eventually("the editor hears \(line): \(heard)") { heard.contains(line) }
    }

    private static let program = #"""
        import http.client, json, os, socket, subprocess, sys, threading
        address, mount, path, unsaved, manner = sys.argv[1:]

        class Local(http.client.HTTPConnection):
            def connect(self):
                self.sock = socket.socket(socket.AF_UNIX)
                self.sock.connect(address)

        def post(route, **message):
            connection = Local("localhost")
            connection.request("POST", route, json.dumps(message))
            return connection.getresponse()

        def save():
            global unsaved
            if unsaved:
                with open(os.path.join(mount, path), "w") as file:
                    file.write(unsaved + "\n")
            unsaved = ""

        def work():
            os.chdir(mount)
            for line in sys.stdin:
                exec(line, globals())
                print("did", flush=True)

        steps = ["relinquish-to-reader", "relinquish-to-writer", "save-changes", "accommodate-deletion",
                 "accommodate-subitem-deletion", "accommodate-eviction"]
        for line in post("/v1/clients", name="editor", process=os.getpid(), answerTime=3):
            if not line.startswith(b"data: "):
                continue
            news = json.loads(line[6:])
            if news["kind"] == "registered":
                client = news["client"]
                presenter = json.load(post("/v1/presenters", client=client, path=path, abilities=steps))
                print("shown", flush=True)
                threading.Thread(target=work, daemon=True).start()
                continue
            print(news["kind"], *news.get("steps", []), *[news[key] for key in ["oldPath", "path"] if key in news],
                  flush=True)
            if "fields" in news:
                print("fields", *news["fields"], flush=True)
            if news["kind"] == "ask" and manner != "silent":
                if "save-changes" in news["steps"]:
                    save()
                refusal = {"refusal": "not now"} if manner == "refusing" else {}
                post("/v1/presenters/answer", client=client, question=news["question"], **refusal).read()
        """#
}
