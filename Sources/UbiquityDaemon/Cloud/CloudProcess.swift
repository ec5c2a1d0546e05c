import Logging
import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// The cloud process, from start to end.
package enum CloudProcess {
    package static let defaultAddress = "127.0.0.1:7070"

    /// The address for devices. The cloud also listens on the Unix socket in its data folder, through which accounts
    /// are managed.
    package enum Place: Hashable, Sendable {
        case address(String)
        case tls(String, certificate: String, key: String)
        case socket(String)
        /// Only at the socket in the data folder; the process ends when it is unused.
        case embedded
    }

    /// Days for which deleted items, earlier versions and resolved conflicts are kept.
    package static let standardDays = 30.0
    /// Number of earlier versions kept of one file.
    package static let standardVersions = 100

    /// Whether other machines can reach an address to listen on. Throws `.invalid` if it is malformed.
    package static func isExposed(address: String) throws -> Bool {
        !InternetAddress.isLoopback(host: try CloudServerConfiguration.Endpoint.address(address).host)
    }

    /// - Parameters:
    ///   - days: retention of deleted items and old versions; nil for the user's configuration, else `standardDays`.
    ///   - versions: number of earlier versions kept of one file; nil for the same, else `standardVersions`.
    ///   - quotaBytes: quota of each account; nil for the same, else the present quotas.
    ///   - connectionsPerAddress: nil for the standard.
    ///   - listening: called with the address when devices can connect.
    package static func run(
        data: String, place: Place, keepingDays days: Double?, versions: Int?, quotaBytes: Int64?,
        connectionsPerAddress: Int? = nil, listening: @escaping @Sendable (String) -> Void
    ) async throws {
        ProcessHost.keepNewFilesPrivate()
        try ProcessHost.raiseOpenFileLimit()
        let logger = LogFile(path: place == .embedded ? CloudFolder.log(data) : nil).logger()
        try TrustedPath.require(data, as: "the data folder")
        try describing("make the data folder", at: data) { () throws(Errno) in
            try FileSystem.makeDirectories(data)
        }
        let given = CloudRules(days: days, versions: versions, quotaBytes: quotaBytes)
        let rules = given.completed()
        let cloud = try await CloudUpkeep.open(data, rules.keeping, rules.quotaBytes, logger)
        let own = CloudFolder.socket(data)
        let configuration = CloudServerConfiguration(
            endpoints: try endpoints(place) + [.unixSocket(path: own)],
            endsAfterIdle: place == .embedded ? CloudServerConfiguration.defaultIdleLimit : nil,
            connectionsPerAddress: connectionsPerAddress)
        let server = CloudServer(host: CloudHost(cloud), configuration: configuration, logger: logger)
        let signals = TerminationSignals { server.stop() }
        let reload = ReloadSignal {
            server.reloadCertificates()
            Task { await given.reload(into: cloud, logger) }
        }
        let upkeep = CloudUpkeep(cloud: cloud, logger: logger)
        let maintenance = Task { await upkeep.run() }
        let watch = Task { await upkeep.watchPlace { server.stop() } }
        defer {
            maintenance.cancel()
            watch.cancel()
        }
        // A device starts the embedded cloud; its manager, if any, is that of the device.
        let manager = place == .embedded ? nil : ServiceManager()
        try await server.run { address in
            if place == .embedded || address != own { listening(address) }
            manager?.send(.ready)
        }
        manager?.send(.stopping)
        let isInPlace = cloud.isInPlace
        try await cloud.close()
        guard isInPlace else {
            throw UbiquityError(.io, "its data folder, or the \(Cloud.lockName) in it, was removed or moved", at: data)
        }
        logger.notice("ended")
        withExtendedLifetime((signals, reload)) {}
    }

    private static func endpoints(_ place: Place) throws -> [CloudServerConfiguration.Endpoint] {
        switch place {
        case .address(let text):
            let (host, port) = try CloudServerConfiguration.Endpoint.address(text)
            return [.tcp(host: host, port: port)]
        case .tls(let text, let certificate, let key):
            let (host, port) = try CloudServerConfiguration.Endpoint.address(text)
            return [.tls(host: host, port: port, certificate: certificate, key: key)]
        case .socket(let path): return [.unixSocket(path: path)]
        case .embedded: return []
        }
    }
}
