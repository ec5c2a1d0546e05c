import Glibc
import Testing
import UbiquityControl

/// Sockets, state folders and daemons of other users.
@Suite(.enabled(if: getuid() == 0, "only root can act as two users")) struct ForeignUserTests {
    private static let other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

    /// Expects a message that names both users.
    private func expectRefusal(_ outcome: Command.Outcome, _ status: Int32) {
        #expect(outcome.status == status, "\(outcome)")
        #expect(outcome.err.contains("(65534)") && outcome.err.contains("root (0)"), "\(outcome)")
    }

    /// A program of another user that listens at a path and records its input.
    private func listener(_ path: String, in world: World) async throws -> Command {
        let script = """
            import os, socket, sys
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(sys.argv[1])
            listener.listen(16)
            print("ready", flush=True)
            while True:
                connection = listener.accept()[0]
                received = connection.recv(4096)
                if received:
                    print("received", received, flush=True)
                connection.close()
            """
        let folder = path.split(separator: "/").dropLast().map { "/\($0)" }.joined()
        try await world.shell("chmod 711 '\(world.folder)'; chown 65534 '\(folder)'")
        let command = try world.start(Self.other + ["/usr/bin/python3", "-c", script, path])
        try await world.eventually("it listens") { command.outputSoFar.contains("ready") }
        // By the owner of the file alone it would belong to root.
        try await world.shell("chown 0 '\(folder)' '\(path)'")
        return command
    }

    @Test func daemonOfAnotherUserGetsNothing() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > f; ln -s f link")
            let socket = a.containerState + "/control.sock"
            try await world.shell(
                "rm '\(socket)'; chmod 711 '\(a.state)' '\(a.state)/local' '\(a.containerState)'")
            let listener = try await listener(socket, in: world)
            let item = a.mountPoint + "/f"
            let commands = [
                ["status", item], ["status", a.mountPoint + "/link/"], ["evict", item], ["monitor", a.mountPoint],
                ["unmount", a.mountPoint],
            ]
            for command in commands { expectRefusal(try await world.attempt([World.program] + command), 3) }
            #expect(listener.outputSoFar == "ready\n")
            listener.signal(SIGKILL)
            _ = try await listener.finish()
        }
    }

    @Test func stateFolderOfAnotherUserIsRefused() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > f")
            try await world.shell("chown 65534 '\(a.containerState)'")
            expectRefusal(try await a.ubiquity("status", "f"), 3)
            expectRefusal(try await a.ubiquity("unmount", ""), 3)
            try await world.shell("chown 0 '\(a.containerState)'; mkdir '\(world.folder)/theirs'")
            #expect(try await a.ubiquity("status", "f").status == 0)

            try await world.shell("chown 65534 '\(world.folder)/theirs'; echo token > '\(world.folder)/token'")
            let state = ["--state", world.folder + "/theirs"]
            let login = ["login", "http://127.0.0.1:1", "--account", "ann", "--token-file", world.folder + "/token"]
            for command in [login, ["logout"], ["doctor"]] {
                expectRefusal(try await world.attempt([World.program] + command + state), 1)
            }
            expectRefusal(try await world.attempt([World.program, "serve", "--data", world.folder + "/theirs"]), 1)
            #expect(try await world.shell("ls -A '\(world.folder)/theirs'") == "")
        }
    }

    @Test func cloudOfAnotherUserGetsNothing() async throws {
        try await World.run { world in
            let data = world.folder + "/data"
            try await world.shell("mkdir '\(data)'")
            let listener = try await listener(data + "/cloud.sock", in: world)
            for command in [["account", "list"], ["account", "create", "ann"]] {
                expectRefusal(try await world.attempt([World.program] + command + ["--data", data]), 1)
            }
            #expect(listener.outputSoFar == "ready\n")
            listener.signal(SIGKILL)
            _ = try await listener.finish()
        }
    }

    /// The socket has more protection than its mode.
    @Test func daemonAndCloudRefuseProcessesOfAnotherUser() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > secret-name")
            try await a.waitUntilIdle()
            let control = a.containerState + "/control.sock", cloud = world.cloudData + "/cloud.sock"
            try await world.shell(
                """
                chmod 711 '\(world.folder)' '\(a.state)' '\(a.state)/local' '\(a.containerState)' '\(world.cloudData)'
                chmod 666 '\(control)' '\(cloud)'
                """)
            for (socket, path) in [(control, "/v1/status"), (cloud, "/v1/accounts")] {
                let request = ["curl", "-s", "-i", "-m", "10", "--unix-socket", socket, "http://x\(path)"]
                let own = try await world.attempt(request)
                #expect(own.out.contains("200 OK"), "\(own)")
                let foreign = try await world.attempt(Self.other + request)
                #expect(foreign.out.contains("403 Forbidden") && foreign.out.contains("root (0) only"), "\(foreign)")
                #expect(!foreign.out.contains("200 OK"), "\(foreign)")
            }
            #expect(try await a.status().account == "local")
        }
    }
}
