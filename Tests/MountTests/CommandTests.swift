import Foundation
import Testing
import UbiquityControl

/// The command line that scripts rely on.
@Suite struct CommandTests {
    @Test func commandsReturnTheirExitCodes() async throws {
        try await World.run { world in
            for command in [
                "mount", "unmount", "serve", "status", "list", "monitor", "wait", "download", "evict", "pin", "unpin",
                "offline", "online", "versions", "resolve", "restore", "trash"]
            {
                #expect(try await world.ubiquity(command, "--help").status == 0)
                let wrong = try await world.ubiquity(command, "--no-such-option")
                #expect(wrong.status == 2, "\(command): \(wrong)")
                #expect(wrong.out.isEmpty && !wrong.err.isEmpty)
            }
            #expect(try await world.ubiquity("nonsense").status == 2)
            #expect(try await world.ubiquity("mount").status == 2)
            #expect(try await world.ubiquity("mount", "--policy", "odd", "/tmp").status == 2)
            #expect(try await world.ubiquity("mount", "--container", "..", "/tmp").status == 2)
            #expect(try await world.ubiquity("serve", "--listen", "nonsense").status == 2)
            for command in [
                "unmount", "wait", "download", "evict", "pin", "offline", "online", "monitor", "list", "versions",
                "resolve",
            ] {
                let none = try await world.ubiquity(command, world.folder)
                #expect(none.status == 3, "\(command): \(none)")
                #expect(none.err.contains(world.folder))
            }
            let a = try await world.mounted("a")
            try await a.waitUntilIdle()
            for command in ["download", "evict", "pin", "status", "list", "versions", "resolve"] {
                let missing = try await a.ubiquity(command, "missing")
                #expect(missing.status == 1, "\(command): \(missing)")
                #expect(missing.err.contains("missing"))
            }
        }
    }

    @Test func mountReportsConfigurationErrors() async throws {
        try await World.run { world in
            try await world.shell(
                "mkdir -p \"$HOME/.config/ubiquity\"; printf 'ignore = x\\nignroe = y\\n' > \"$HOME/.config/ubiquity/config\"")
            let a = try world.device("a")
            let mounted = try await a.tryMount([])
            #expect(mounted.err.contains("ubiquity/config, line 2: there is no setting 'ignroe'"), "\(mounted)")
            #expect(!mounted.err.contains("line 1"))
            try await a.shell("echo x > x")
            #expect(try await a.attribute("is-excluded-from-sync", of: "x") == "1")
        }
    }

    @Test func statusShowsMountsAndItems() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > f; mkdir d")
            try await a.waitUntilIdle()
            let status = try await a.status()
            #expect(status.container == "default")
            #expect(status.device.name == "a")
            #expect(status.cloud.state == .online)
            #expect(status.uploads.items == 0 && status.downloads.items == 0 && status.pending.isEmpty)
            #expect(status.bytesSent > 0 && status.bytesReceived > 0)
            #expect(status.processID == a.processID)
            #expect(status.revision > 0)
            let text = try await world.ubiquity("status").out
            #expect(text.contains(a.mountPoint))
            #expect(text.contains("passthrough"))
            let report = try await a.report("f")
            #expect(
                report.isUploaded && report.downloadingStatus == .current && report.size == 5 && report.kind == "file")
            let lines = try await a.ubiquity("status", "f", "d")
            #expect(lines.status == 0)
            #expect(lines.out.split(separator: "\n").count == 2)
            #expect(lines.out.contains("uploaded"))
        }
    }

    @Test func statusShowsTheOtherMountsWhenOneDaemonAnswersWithAnError() async throws {
        try await World.run { world in
            let (failing, working) = (try await world.mounted("failing"), try await world.mounted("working"))
            try await failing.kill()
            let daemon = try world.start(["/usr/bin/python3", "-uc", Self.failingDaemon, failing.containerState])
            try await world.eventually("the socket listens") { daemon.outputSoFar == "ready\n" }
            let outcome = try await world.ubiquity("status")
            #expect(outcome.status == 1)
            #expect(outcome.out.contains(working.mountPoint))
            #expect(outcome.err.contains("\(failing.mountPoint): cannot read the index"))
        }
    }

    /// Answers each request with an error.
    private static let failingDaemon = """
        import http.server, os, socketserver, sys
        os.chdir(sys.argv[1])
        os.remove("control.sock")
        class Handler(http.server.BaseHTTPRequestHandler):
            def address_string(self): return "socket"
            def do_GET(self):
                body = b'{"code": "io", "message": "cannot read the index", "place": "", "remedy": ""}'
                self.send_response(500)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
        server = socketserver.ThreadingUnixStreamServer("control.sock", Handler)
        print("ready")
        server.serve_forever()
        """

    @Test func stateFolderSelectsTheDevice() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo text > f")
            let ambiguous = try await world.ubiquity("offline")
            #expect(ambiguous.status == 2)
            for (device, other) in [(a, b), (b, a)] {
                let all = try await world.ubiquity("status", "--state", device.state + "/")
                #expect(all.status == 0 && all.out.contains(device.mountPoint) && !all.out.contains(other.mountPoint))
                for command in ["wait", "status", "unpin", "offline", "online"] {
                    #expect(try await device.ubiquity(command, "", options: ["--state", device.state]).status == 0)
                    let elsewhere = try await device.ubiquity(command, "", options: ["--state", other.state])
                    #expect(elsewhere.status == 3 && elsewhere.err.contains(other.state), "\(command): \(elsewhere)")
                }
            }
            let nobody = try await world.ubiquity("status", "--state", world.folder + "/nobody")
            #expect(nobody.status == 3)
            // Without a path, the environment selects the mount.
            for (device, other) in [(a, b), (b, a)] {
                let chosen = "UBIQUITY_STATE='\(device.state)' '\(World.program)'"
                let all = try await world.shell("\(chosen) status")
                #expect(all.contains(device.mountPoint) && !all.contains(other.mountPoint))
                try await world.shell("\(chosen) trash list; \(chosen) doctor")
                #expect(try await world.shell("\(chosen) status '\(other.mountPoint)'").contains(other.mountPoint))
            }
        }
    }

    @Test func logLevelChangesUntilTheMountEnds() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            let log = try await a.ubiquity("log", "")
            #expect(log.text == "\(a.containerState)/daemon.log: info", "\(log)")
            try await a.shell("echo 1 > f")
            try await a.wait("--uploaded", "f")
            #expect(try await a.ubiquity("log", "", options: ["--level", "debug", "--json"]).text.contains("\"debug\""))
            try await a.shell("echo 2 > g")
            try await a.wait("--uploaded", "g")
            try await a.ubiquity("log", "", options: ["--level", "warning"])
            try await a.shell("echo 3 > h")
            try await a.wait("--uploaded", "h")
            let lines = try await a.shell("cat '\(a.containerState)/daemon.log'").split(separator: "\n")
            let commits = lines.filter { $0.contains(" debug ubiquity: committed ") }
            #expect(commits.count >= 1 && lines.last?.contains("level was set") == true, "\(lines)")
            #expect(lines.dropFirst(lines.firstIndex { $0.contains("level was set") } ?? 0).contains { $0 == commits.first })
            #expect(try await a.ubiquity("log", "", options: ["--level", "loud"]).status == 2)
        }
    }

    @Test func waitReturnsWhenItsConditionHolds() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("head -c 3000000 /dev/urandom > f")
            try await a.wait("--uploaded", "f")
            #expect(try await a.attribute("is-uploaded", of: "f") == "1")
            try await b.waitUntil("test -e f")
            #expect(try await b.ubiquity("wait", "f", options: ["--downloaded", "--timeout", "0.3"]).status == 1)
            #expect(try await b.ubiquity("download", "f").status == 0)
            try await b.wait("--downloaded", "f")
            #expect(try await b.attribute("downloading-status", of: "f") == "current")
            let json = try await b.ubiquity("wait", "", options: ["--idle", "--json"])
            #expect(try ControlCodec.decode(WaitReport.self, from: json.text.utf8).done)
            let missing = try await b.ubiquity("wait", "missing", options: ["--uploaded"])
            #expect(missing.status == 1 && missing.err.contains("missing"), "\(missing)")
            // A deletion by another device waits for the program that writes to the file, and the attribute says so.
            try await a.shell("echo held > held")
            try await world.settle(a, b)
            let writer = try b.start("exec 9>>held; echo open; exec sleep 600")
            try await world.eventually("it is open") { writer.outputSoFar == "open\n" }
            try await a.shell("rm held")
            try await world.settle(a)
            let waited = try await b.ubiquity("wait", "", options: ["--idle", "--timeout", "3"])
            #expect(waited.status == 1 && waited.err.contains("held waits until the program"), "\(waited)")
            writer.signal(15)
            try await writer.finish()
            #expect(try await b.ubiquity("wait", "", options: ["--idle", "--timeout", "60"]).status == 0)
            #expect(try await b.attempt("cat held").status == 1)
            // A question without a wait.
            #expect(try await b.ubiquity("wait", "", options: ["--idle", "--timeout", "0"]).status == 0)
        }
    }

    @Test func serveOverTCPAnswersDevicesAndCurl() async throws {
        try await World.run { world in
            let data = world.folder + "/served"
            let server = try world.start([World.program, "serve", "--data", data, "--listen", "127.0.0.1:0"])
            try await world.eventually("it listens") { server.outputSoFar.contains("listening on ") }
            let line = try #require(server.outputSoFar.split(separator: "\n").first { $0.hasPrefix("listening on ") })
            let address = String(line.dropFirst("listening on ".count))
            let url = address.hasPrefix("http") ? address : "http://\(address)"
            #expect(try await world.shell("curl -sf '\(url)/healthz'") != "")
            let second = try await world.ubiquity("serve", "--data", data, "--listen", "127.0.0.1:0", within: 20)
            #expect(second.status == 1, "\(second)")
            server.signal(SIGTERM)
            #expect(try await server.finish().status == 0)
        }
    }

    @Test func devicesSignInToACloudWithAnAccount() async throws {
        try await World.run { world in
            let data = world.folder + "/served"
            let server = try world.start([World.program, "serve", "--data", data, "--listen", "127.0.0.1:0"])
            try await world.eventually("it listens") { server.outputSoFar.contains("listening on ") }
            let line = try #require(server.outputSoFar.split(separator: "\n").first { $0.hasPrefix("listening on ") })
            let address = String(line.dropFirst("listening on ".count))
            let url = address.hasPrefix("http") ? address : "http://\(address)"
            let created = try await world.ubiquity("account", "create", "ann", "--data", data)
            try #require(created.status == 0, "\(created)")
            let token = world.folder + "/token"
            try created.out.write(toFile: token, atomically: true, encoding: .utf8)
            let (a, b) = (try world.device("a"), try world.device("b"))
            for device in [a, b] {
                let login = try await world.ubiquity(
                    "login", url, "--account", "ann", "--token-file", token, "--state", device.state)
                try #require(login.status == 0, "\(login)")
                try await device.mount()
            }
            try await a.shell("head -c 300000 /dev/urandom > f")
            for device in [a, b, a] {
                #expect(try await device.ubiquity("wait", "", options: ["--idle", "--timeout", "30"]).status == 0)
            }
            try await b.shell("cmp f '\(a.mountPoint)/f'")
            #expect(world.cloudProcess == nil)
            for device in [a, b] {
                #expect(try await world.ubiquity("unmount", device.mountPoint).status == 0)
            }
        }
    }

    @Test func signInKeepsTheTrustedCertificates() async throws {
        try await World.run { world in
            let (data, certificate) = (world.folder + "/served", world.folder + "/cert.pem")
            _ = try await world.shell(
                "cd '\(world.folder)'; openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test"
                    + " -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem 2>&1")
            let tls = ["--tls-certificate", certificate, "--tls-key", world.folder + "/key.pem"]
            let server = try world.start(
                [World.program, "serve", "--data", data, "--listen", "127.0.0.1:0"] + tls)
            try await world.eventually("it listens") { server.outputSoFar.contains("listening on https") }
            let line = try #require(server.outputSoFar.split(separator: "\n").first { $0.hasPrefix("listening on ") })
            let created = try await world.ubiquity("account", "create", "ann", "--data", data)
            let token = world.folder + "/token"
            try created.out.write(toFile: token, atomically: true, encoding: .utf8)
            let device = try world.device("a")
            let login = [
                "login", String(line.dropFirst("listening on ".count)), "--account", "ann", "--token-file", token,
                "--state", device.state,
            ]
            let stranger = try await world.attempt([World.program] + login)
            #expect(stranger.status != 0 && stranger.err.contains("--certificate-authority"), "\(stranger)")
            let plain = try world.start([World.program, "serve", "--data", data + "2", "--listen", "127.0.0.1:0"])
            try await world.eventually("it listens") { plain.outputSoFar.contains("listening on http") }
            let port = plain.outputSoFar.split(separator: "\n")[0].split(separator: ":").last ?? ""
            let mixed = try await world.attempt(
                [World.program, "login", "https://127.0.0.1:\(port)"] + login.dropFirst(2))
            #expect(mixed.status != 0 && mixed.err.contains("does not use TLS"), "\(mixed)")
            let wrong = try await world.attempt([World.program] + login + ["--certificate-authority", token])
            #expect(wrong.status == 1 && wrong.err.contains("in PEM"), "\(wrong)")
            let good = try await world.attempt([World.program] + login + ["--certificate-authority", certificate])
            try #require(good.status == 0, "\(good)")
            _ = try await world.shell("rm '\(certificate)'")
            try await device.mount()
            try await device.shell("echo safe > f")
            let wait = ["--uploaded", "--timeout", "30"]
            #expect(try await device.ubiquity("wait", "f", options: wait).status == 0)
            #expect(try await world.ubiquity("unmount", device.mountPoint).status == 0)
        }
    }

    @Test func invalidListenAddressesAreRefused() async throws {
        try await World.run { world in
            let serve = ["serve", "--data", world.folder + "/served"]
            let unknown = try await world.attempt([World.program] + serve + ["--listen", "nohost.invalid:7070", "--insecure"])
            #expect(unknown.status == 1 && unknown.err.contains("ubiquity: cannot listen: "), "\(unknown)")
            for host in ["0.0.0.0", "nohost.invalid", "[::]"] {
                let exposed = try await world.attempt([World.program] + serve + ["--listen", host + ":0"])
                #expect(exposed.status == 2 && exposed.err.contains("--insecure"), "\(exposed)")
            }
            let login = ["login", "http://nohost.invalid:7070", "--account", "ann", "--state", world.folder + "/s"]
            let readable = try await world.attempt([World.program] + login)
            #expect(readable.status == 2 && readable.err.contains("--insecure"), "\(readable)")
            let offline = try await world.attempt([World.program] + login + ["--insecure", "--token-file", "/dev/null"])
            #expect(offline.status == 1, "\(offline)")
            let tls = ["--tls-certificate", "a", "--tls-key", "b", "--socket", world.folder + "/s"]
            #expect(try await world.attempt([World.program] + serve + tls).status == 2)
        }
    }
}
