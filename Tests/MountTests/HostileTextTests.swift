import Foundation
import Testing

/// Text from outside in every field of every answer that commands print.
@Suite struct HostileTextTests {
    enum Mode: String, CaseIterable, Sendable {
        /// Every text of an answer is hostile.
        case fields
        /// Every answer is a refusal with hostile text.
        case refusals
        /// Every text of an answer has bytes that are not UTF-8.
        case bytes
    }

    @Test(arguments: Mode.allCases) func hostileTextIsEscapedInAllOutput(_ mode: Mode) async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > f")
            try await a.waitUntilIdle()
            let daemon = try await Self.replaceDaemon(of: a, mode)
            let item = a.mountPoint + "/f", mount = a.mountPoint
            let commands = [
                ["status"], ["status", item], ["list", mount], ["list", "--watch", mount], ["monitor", mount],
                ["wait", item], ["download", "-v", item], ["download", mount], ["evict", "-v", item], ["pin", "-v", item],
                ["unpin", "-v", item], ["versions", item], ["resolve", item], ["restore", item, "x"],
                ["restore", item, "x", "--to", mount + "/g"], ["trash", "list", mount], ["trash", "restore", item],
                ["deletions", "confirm", mount], ["log", mount], ["doctor", mount], ["offline", mount],
                ["coordinate", "read", item, "--", "true"], ["account", "list", "--data", world.folder + "/hostile"],
                ["account", "create", "ann", "--data", world.folder + "/hostile"],
                ["unmount", "--lazy", mount],
            ]
            for command in commands {
                for options in [[], ["--json"]] where options.isEmpty || !["offline", "coordinate"].contains(command[0]) {
                    let before = command.prefix { $0 != "--" }, after = command.dropFirst(before.count)
                    let words = [World.program] + before + options + after
                    let outcome = try await world.attempt(["timeout", "-k", "1", "20"] + words)
                    Self.expectHarmless(outcome, mode, "\(command) \(options)")
                }
            }
            // Each answer must have been requested, or the commands did not print it.
            let asked = try await world.shell("sort -u '\(world.folder)/asked'").split(separator: "\n").map(String.init)
            let routes = ["status", "items/status", "queries", "events", "wait", "items/download", "items/evict", "items/pin"]
                + ["items/unpin", "versions", "versions/resolve", "versions/restore", "trash", "trash/restore"]
                + ["deletions", "log", "doctor", "offline", "accounts", "stop"]
            for route in routes { #expect(asked.contains("/v1/" + route), "\(route)") }
            daemon.signal(SIGKILL)
            _ = try await daemon.finish()
        }
    }

    private static func expectHarmless(_ outcome: Command.Outcome, _ mode: Mode, _ command: String) {
        let output = outcome.out + outcome.err
        #expect(outcome.status != 124, "\(command) hangs")
        let bad = output.unicodeScalars.filter { scalar in
            switch scalar.value {
            case 0x0A: false
            case 0..<0x20, 0x7F..<0xA0, 0x061C, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069: true
            default: false
            }
        }
        #expect(bad.isEmpty, "\(command): \(Set(bad.map { String($0.value, radix: 16) })) in \(outcome)")
        #expect(!output.split(separator: "\n").contains { $0.hasPrefix("FORGED") }, "\(command): \(outcome)")
        let printers = ["status", "list", "monitor", "versions", "resolve", "trash", "log", "doctor", "account"]
        guard mode == .fields, printers.contains(where: { command.hasPrefix("[\"\($0)\"") }) else { return }
        #expect(output.contains("hostile"), "\(command) prints no field: \(outcome)")
    }

    /// Replaces the daemon's socket by a program, and a cloud's in `hostile/`. Answers follow `openapi.json`.
    private static func replaceDaemon(of device: Device, _ mode: Mode) async throws -> Command {
        let world = device.world, socket = device.containerState + "/control.sock"
        let schema = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Sources/UbiquityControl/openapi.json").path
        try await world.shell("mv '\(socket)' '\(socket).real'; mkdir -m 700 '\(world.folder)/hostile'")
        let command = try world.start(
            ["/usr/bin/python3", "-c", program, schema, mode.rawValue, world.folder + "/asked", socket,
                world.folder + "/hostile/cloud.sock"])
        try await world.eventually("the program listens") { command.outputSoFar.contains("ready") }
        return command
    }

    private static let program = #"""
        import json, os, socket, sys, threading
        api = json.load(open(sys.argv[1]))
        mode, asked = sys.argv[2], open(sys.argv[3], "a", buffering=1)
        TEXT = "hostile\x1b[2J\x1b]0;t\x07\r\nFORGED line\n\x9b31m\u202eevil\u2066\u200f\u2028\u2029\u061c\x7f"

        def make(schema, n):
            if "$ref" in schema:
                return make(api["components"]["schemas"][schema["$ref"].split("/")[-1]], n)
            if "enum" in schema:
                return schema["enum"][n % len(schema["enum"])]
            for word in ("oneOf", "anyOf"):
                if word in schema:
                    return make(schema[word][n % len(schema[word])], n)
            if "allOf" in schema:
                result = {}
                for part in schema["allOf"]:
                    result.update(make(part, n))
                return result
            kind = schema.get("type")
            if kind == "object" or "properties" in schema:
                required = schema.get("required", [])
                names = [name for name in schema.get("properties", {}) if n % 3 != 1 or name in required]
                return {name: make(schema["properties"][name], n) for name in names}
            if kind == "array":
                return [make(schema["items"], n + i) for i in range(3)]
            if kind == "string":
                return TEXT
            if kind == "boolean":
                return n % 2 == 0
            return 1

        def answer(method, path):
            if mode == "refusals":
                refusal = {"code": "invalid", "message": TEXT, "place": TEXT, "remedy": TEXT}
                return "409 Conflict", "application/json", json.dumps(refusal)
            if path == "/v1/accounts":
                return "200 OK", "application/json", json.dumps({"accounts": [TEXT], "token": TEXT})
            content = api["paths"].get(path, {}).get(method.lower(), {}).get("responses", {}).get("200", {}).get("content")
            if not content:
                return "200 OK", "application/json", "{}"
            kind = next(iter(content))
            schema = content[kind]["schema"]
            if kind == "application/json":
                return "200 OK", kind, json.dumps(make(schema, 0))
            messages = [json.dumps(make(schema, n)) for n in range(30)]
            mark, end = ("data: ", "\n\n") if kind == "text/event-stream" else ("", "\n")
            return "200 OK", kind, "".join(mark + message + end for message in messages)

        def serve(connection):
            with connection:
                file = connection.makefile("rb")
                line = file.readline().split()
                if len(line) < 2:
                    return
                length = 0
                while (header := file.readline().strip()):
                    name, value = header.split(b":", 1)
                    if name.lower() == b"content-length":
                        length = int(value)
                file.read(length)
                method, path = line[0].decode(), line[1].decode()
                if method == "OPTIONS":
                    return connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                asked.write(path + "\n")
                status, kind, text = answer(method, path)
                body = text.encode()
                if mode == "bytes":
                    body = body.replace(b"hostile", b"hostile\xff\xfe\xc3\x28\xed\xa0\x80")
                head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)

        def listen(path):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path)
            listener.listen(64)
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],)).start()

        for path in sys.argv[4:]:
            threading.Thread(target=listen, args=(path,)).start()
        while not all(os.path.exists(path) for path in sys.argv[4:]):
            pass
        print("ready", flush=True)
        """#
}
