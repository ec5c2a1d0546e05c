import Logging
import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// The kind of connection that a test uses.
enum Way: String, CaseIterable, Sendable {
    case tcp, unixSocket, longUnixSocket
}

/// A failure of the harness itself.
struct HarnessFailure: Error {
    let reason: String
}

/// A temporary folder, which is removed with this object.
final class TestFolder: Sendable {
    let path: String

    init() throws {
        path = "/tmp/ubiquity-http-\(String(SystemRandom().next(), radix: 36))"
        try FileSystem.makeDirectory(path)
    }

    deinit {
        // A folder that remains in /tmp does no harm.
        try? FileSystem.removeTree(path)
    }
}

/// A server that runs during a test's body.
struct RunningServer: Sendable {
    let cloud: FakeCloud
    let server: CloudServer
    let address: CloudAddress
    let folder: TestFolder
    /// Ends with the server.
    let task: Task<Void, any Error>

    var isTCP: Bool { if case .web = address { true } else { false } }

    var container: FakeContainer {
        cloud.container(isTCP ? FakeCloud.account : CloudHost.localAccount, Self.containerName)
    }

    static let containerName = ContainerID("default").unsafelyUnwrapped
    static let device = DeviceID(high: 1, low: 2)

    func client(token: String? = FakeCloud.token) throws -> CloudClient {
        try CloudClient(
            address, container: Self.containerName, token: isTCP ? token : nil, device: Self.device,
            deviceName: "Ähre & Co")
    }
}

enum Harness {
    static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    static func start(
        _ way: Way, cloud: FakeCloud = FakeCloud(), folder: TestFolder? = nil, endsAfterIdle: Duration? = nil,
        shutdownLimit: Duration = .seconds(10), rules: ConnectionRules = ConnectionRules()
    ) async throws -> RunningServer {
        let folder = try folder ?? TestFolder()
        let endpoint: CloudServerConfiguration.Endpoint =
            switch way {
            case .tcp: .tcp(host: "127.0.0.1", port: 0)
            case .unixSocket: .unixSocket(path: folder.path + "/cloud.sock")
            case .longUnixSocket: .unixSocket(path: try longPath(in: folder))
            }
        return try await start(
            endpoint, cloud: cloud, folder: folder, endsAfterIdle: endsAfterIdle, shutdownLimit: shutdownLimit,
            rules: rules)
    }

    static func start(
        _ endpoint: CloudServerConfiguration.Endpoint, cloud: FakeCloud, folder: TestFolder,
        endsAfterIdle: Duration? = nil, shutdownLimit: Duration = .seconds(10),
        rules: ConnectionRules = ConnectionRules(), certificates: String? = nil
    ) async throws -> RunningServer {
        let server = CloudServer(
            host: cloud.host,
            configuration: CloudServerConfiguration(
                endpoints: [endpoint], endsAfterIdle: endsAfterIdle, shutdownLimit: shutdownLimit),
            logger: logger, rules: rules)
        let (addresses, source) = AsyncStream.makeStream(of: String.self)
        let task = Task {
            defer { source.finish() }
            try await server.run { source.yield($0) }
        }
        for await address in addresses {
            return RunningServer(
                cloud: cloud, server: server, address: try CloudAddress(address, certificates: certificates),
                folder: folder, task: task)
        }
        try await task.value
        throw HarnessFailure(reason: "the server ended before it listened")
    }

    /// Runs `body` with a server and a client, and ends both.
    static func withServer(
        _ way: Way, cloud: FakeCloud = FakeCloud(), _ body: (RunningServer, CloudClient) async throws -> Void
    ) async throws {
        let running = try await start(way, cloud: cloud)
        let client = try running.client()
        do {
            try await body(running, client)
        } catch {
            await client.shutdown()
            running.server.stop()
            throw error
        }
        await client.shutdown()
        running.server.stop()
        try await running.task.value
    }

    /// Waits for a state, at most a minute: all tests may share two threads.
    static func eventually(_ what: String, _ condition: () async throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < deadline {
            if try await condition() { return }
            await Task.yield()
            try await Task.sleep(for: .milliseconds(2))
        }
        throw HarnessFailure(reason: "it did not come to be that \(what)")
    }

    private static func longPath(in folder: TestFolder) throws -> String {
        let deep = folder.path + "/" + String(repeating: "a", count: 120) + "/" + String(repeating: "ö", count: 60)
        try FileSystem.makeDirectories(deep)
        return deep + "/cloud.sock"
    }
}
