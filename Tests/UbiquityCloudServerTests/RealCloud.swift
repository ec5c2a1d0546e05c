import Testing
import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem

/// A cloud in a temporary folder, on a Unix socket and a TCP port.
enum RealCloud {
    static func run(
        at time: ShiftedTime = ShiftedTime(), rules: ConnectionRules = ConnectionRules(),
        _ body: (_ socket: CloudAddress, _ web: CloudAddress, Cloud) async throws -> Void
    ) async throws {
        let folder = try TestFolder()
        let pool = BlockingPool(name: "test-cloud", threads: 2)
        let cloud = try await pool.run {
            try Cloud(
                data: folder.path + "/data", timekeeper: time, random: SystemRandom(), pool: pool,
                logger: Harness.logger)
        }
        let server = CloudServer(
            host: CloudHost(cloud),
            configuration: CloudServerConfiguration(endpoints: [
                .unixSocket(path: folder.path + "/s"), .tcp(host: "127.0.0.1", port: 0),
            ]),
            logger: Harness.logger, rules: rules)
        let (addresses, source) = AsyncStream.makeStream(of: String.self)
        let task = Task {
            defer { source.finish() }
            try await server.run { source.yield($0) }
        }
        var known = [CloudAddress]()
        for await address in addresses {
            known.append(try CloudAddress(address))
            if known.count == 2 { break }
        }
        let web = try #require(known.first { if case .web = $0 { true } else { false } })
        try await body(.unixSocket(path: folder.path + "/s"), web, cloud)
        server.stop()
        try await task.value
        try await cloud.close()
    }

    static func client(_ address: CloudAddress, token: String? = nil, device: UInt64) throws -> CloudClient {
        try CloudClient(
            address, container: RunningServer.containerName, token: token, device: DeviceID(high: 9, low: device),
            deviceName: "device \(device)")
    }
}
