import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Stands for an account on this device: two are equal if it is the same one. It says nothing else, and is of no use
/// anywhere else; it can be stored, to be compared the next time a program starts.
public struct UbiquityIdentityToken: Hashable, Codable, Sendable {
    private let value: String

    init(_ value: String) { self.value = value }
}

/// The containers that are mounted on this machine.
enum Containers {
    struct Mounted: Hashable, Sendable {
        var mountPoint: String
        var stateFolder: String

        /// A container's state folder has its name.
        var identifier: String { stateFolder.split(separator: "/").last.map(String.init) ?? "" }
    }

    /// The one of that name, or the first, whose daemon answers.
    static func mounted(_ identifier: String?) throws -> Mounted? {
        for entry in try MountFinder.table().containers {
            let mount = Mounted(
                mountPoint: String(decoding: entry.mountPoint, as: UTF8.self),
                stateFolder: String(decoding: entry.source, as: UTF8.self))
            guard identifier == nil || mount.identifier == identifier else { continue }
            if MountFinder.isAlive(stateFolder: entry.source) { return mount }
        }
        return nil
    }

    static func token(of mount: Mounted) -> UbiquityIdentityToken? {
        // A mount that cannot be asked is one where nobody is signed in.
        guard let bytes = try? FileSystem.xattr(mount.mountPoint, "user.ubiquity.identity-token") else { return nil }
        return UbiquityIdentityToken(String(decoding: bytes, as: UTF8.self))
    }
}

/// Notices when another account, or none, is signed in.
struct IdentityWatch: Sendable {
    /// Between two looks at the table of mounts while there is nobody to tell of changes.
    private static let interval = Duration.milliseconds(500)

    let identifier: String?
    let source: AsyncStream<UbiquityIdentityToken?>.Continuation

    /// Until the task is cancelled.
    func run() async {
        let told = Lock<UbiquityIdentityToken??>(nil)
        while !Task.isCancelled {
            let mount = await look(told)
            if let mount { await follow(mount, told) }
            // Only a cancelled task fails to sleep.
            do { try await Sleepers.shared.sleep(for: Self.interval) } catch { return }
        }
    }

    /// Tells the token if it is another than was told.
    private func look(_ told: Lock<UbiquityIdentityToken??>) async -> Containers.Mounted? {
        let found: (mount: Containers.Mounted?, token: UbiquityIdentityToken?)
        do {
            found = try await ItemThreads.pool.run {
                let mount = try Containers.mounted(identifier)
                return (mount, mount.flatMap(Containers.token))
            }
        } catch {
            // A table that cannot be read now is read again.
            return nil
        }
        let isNew = told.withLock { told in
            defer { told = .some(found.token) }
            return told != .some(found.token)
        }
        if isNew { source.yield(found.token) }
        return found.mount
    }

    /// Until the mount ends.
    private func follow(_ mount: Containers.Mounted, _ told: Lock<UbiquityIdentityToken??>) async {
        guard let connection = try? DaemonConnection(stateFolder: mount.stateFolder) else { return }
        // How the stream ends says nothing: then the table of mounts is looked at.
        try? await connection.events { event in
            if [.listening, .identityChanged].contains(event.kind) { _ = await look(told) }
        }
        await connection.close()
    }
}
