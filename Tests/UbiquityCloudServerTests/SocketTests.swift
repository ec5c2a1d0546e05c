import Testing
import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCore
import UbiquitySystem

/// The Unix socket's file.
@Suite struct SocketTests {
    @Test(arguments: [Way.unixSocket, .longUnixSocket]) func onlyTheOwnerMayOpenIt(_ way: Way) async throws {
        try await Harness.withServer(way) { running, _ in
            guard case .unixSocket(let path) = running.address else { return }
            let status = try FileSystem.status(path)
            #expect(status.kind == .socket)
            #expect(status.permissions == 0o600)
            let parent = Path.parent(of: path)
            let names = try FileSystem.entries(of: parent).map { String(decoding: $0.name, as: UTF8.self) }
            #expect(names == ["cloud.sock"])
        }
    }

    @Test func livingServerIsNotReplaced() async throws {
        let folder = try TestFolder()
        let first = try await Harness.start(.unixSocket, folder: folder)
        let failure = await #expect(throws: UbiquityError.self) {
            _ = try await Harness.start(.unixSocket, folder: folder)
        }
        #expect(failure?.code == .inUse)
        let client = try first.client()
        _ = try await client.usage()
        await client.shutdown()
        first.server.stop()
        try await first.task.value
    }

    @Test func deadServersSocketIsReplaced() async throws {
        let folder = try TestFolder()
        let path = folder.path + "/cloud.sock"
        try await leaveDeadSocket(at: path)
        #expect(try FileSystem.status(path).kind == .socket)
        let running = try await Harness.start(.unixSocket, folder: folder)
        let client = try running.client()
        _ = try await client.usage()
        await client.shutdown()
        running.server.stop()
        try await running.task.value
    }

    @Test func nonSocketAtThePathIsKept() async throws {
        let folder = try TestFolder()
        let path = folder.path + "/cloud.sock"
        try SmallFile.publish(Array("mine".utf8), at: path)
        let failure = await #expect(throws: UbiquityError.self) {
            _ = try await Harness.start(.unixSocket, folder: folder)
        }
        #expect(failure?.code == .alreadyExists)
        #expect(try SmallFile.read(path, limit: 100) == Array("mine".utf8))
    }

    @Test func laterServersSocketIsNotRemoved() async throws {
        let folder = try TestFolder()
        let path = folder.path + "/cloud.sock"
        let first = try await Harness.start(.unixSocket, folder: folder)
        try FileSystem.unlink(path)
        let second = try await Harness.start(.unixSocket, folder: folder)
        first.server.stop()
        try await first.task.value
        let client = try second.client()
        _ = try await client.usage()
        await client.shutdown()
        second.server.stop()
        try await second.task.value
    }

    @Test func takenPortIsReported() async throws {
        let first = try await Harness.start(.tcp)
        guard case .web(let url, _) = first.address, let port = url.split(separator: ":").last.flatMap({ Int($0) })
        else { return }
        let folder = try TestFolder()
        let failure = await #expect(throws: UbiquityError.self) {
            _ = try await Harness.start(.tcp(host: "127.0.0.1", port: port), cloud: FakeCloud(), folder: folder)
        }
        #expect(failure?.code == .inUse)
        first.server.stop()
        try await first.task.value
    }

    @Test func addressesAreParsed() throws {
        #expect(try CloudServerConfiguration.Endpoint.address("127.0.0.1:7070") == ("127.0.0.1", 7070))
        #expect(try CloudServerConfiguration.Endpoint.address("[::1]:0") == ("::1", 0))
        for text in ["", "7070", ":7070", "host:", "host:70000", "host:x"] {
            #expect(throws: UbiquityError.self) { try CloudServerConfiguration.Endpoint.address(text) }
        }
        #expect(try CloudAddress("/a/b") == .unixSocket(path: "/a/b"))
        #expect(try CloudAddress("unix:a/b") == .unixSocket(path: "a/b"))
        #expect(try CloudAddress("HTTP://nas:7070/") == .web(url: "http://nas:7070", certificates: nil))
        #expect(try CloudAddress("https://[::1]:1") == .web(url: "https://[::1]:1", certificates: nil))
        for text in ["http://nas:7070", "HTTP://198.18.7.1", "http://[2001:db8::1]:7", "http://127.0.0.1.example", "http://0"] {
            #expect(try CloudAddress(text).isExposed, "\(text)")
        }
        for text in ["http://127.0.0.1:7070", "http://LOCALHOST", "http://[::1]:7", "https://nas", "/socket"] {
            #expect(try !CloudAddress(text).isExposed, "\(text)")
        }
        #expect(try CloudAddress("http://[::1]") == .web(url: "http://[::1]", certificates: nil))
        let impossible = ["http://nas:65536", "http://nas:0", "http://nas:-1", "http://nas:", "http://[::1]:99999"]
        for text in ["", "nas:7070", "ftp://nas", "http://", "http://a/b", "http://a b", "https://u:p@h"] + impossible {
            #expect(throws: UbiquityError.self) { try CloudAddress(text) }
        }
    }

    /// A socket's file without a listener: the leftover of a killed server.
    private func leaveDeadSocket(at path: String) async throws {
        let running = try await Harness.start(.unixSocket)
        guard case .unixSocket(let living) = running.address else { return }
        try FileSystem.rename(living, to: path)
        running.server.stop()
        try await running.task.value
    }
}
