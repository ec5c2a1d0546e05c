import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// An opaque token for an account on this device. Two tokens are equal if the account is the same. It can be stored and
/// compared at the program's next start; it has no other use.
///
/// - Source: `FileManager.ubiquityIdentityToken`.
public struct UbiquityIdentityToken: Hashable, Codable, Sendable {
    private let value: String

    init(_ value: String) { self.value = value }
}

/// The containers mounted on this machine.
enum Containers {
    struct Mounted: Hashable, Sendable {
        var mountPoint: String
        var stateFolder: String

        /// The container's name, which is also the name of its state folder.
        var identifier: String { stateFolder.split(separator: "/").last.map(String.init) ?? "" }
    }

    /// Returns the container of that name, or the first one, whose daemon answers.
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

    /// Returns the container of that name, or the first one, from the mount table alone: its daemon may be stopped.
    static func listed(_ identifier: String?) throws -> Mounted? {
        for entry in try MountFinder.table().containers {
            let mount = Mounted(
                mountPoint: String(decoding: entry.mountPoint, as: UTF8.self),
                stateFolder: String(decoding: entry.source, as: UTF8.self))
            guard identifier == nil || mount.identifier == identifier else { continue }
            if !MountFinder.isForbidden(stateFolder: entry.source) { return mount }
        }
        return nil
    }

    /// Computes the token from the files of the device's state folder. It asks neither the mount nor its daemon.
    static func token(of mount: Mounted, for application: String) -> UbiquityIdentityToken? {
        let device = Path.parent(of: Path.parent(of: mount.stateFolder))
        // A device whose files cannot be read counts as signed out.
        let files = try? DeviceFiles { try SmallFile.read(Path.join(device, $0), limit: DeviceFiles.maximumLength) }
        return files?.token(application: application, container: mount.identifier).map(UbiquityIdentityToken.init)
    }
}

/// Watches which account is signed in.
struct IdentityWatch: Sendable {
    /// Interval between checks of the mount table while no daemon reports changes.
    private static let interval = Duration.milliseconds(500)

    let identifier: String?
    let application: String
    let source: AsyncStream<UbiquityIdentityToken?>.Continuation

    /// Runs until the task is cancelled.
    func run() async {
        let told = Lock<UbiquityIdentityToken??>(nil)
        while !Task.isCancelled {
            let mount = await look(told)
            if let mount { await follow(mount, told) }
            // A sleep fails only in a cancelled task.
            do { try await Sleepers.shared.sleep(for: Self.interval) } catch { return }
        }
    }

    /// Yields the token if it differs from the last one yielded.
    private func look(_ told: Lock<UbiquityIdentityToken??>) async -> Containers.Mounted? {
        let found: (mount: Containers.Mounted?, token: UbiquityIdentityToken?)
        do {
            found = try await ItemThreads.pool.run {
                let listed = try Containers.listed(identifier)
                let token = listed.flatMap { Containers.token(of: $0, for: application) }
                return (try Containers.mounted(identifier), token)
            }
        } catch {
            // A mount table that cannot be read now is read again later.
            return nil
        }
        let isNew = told.withLock { told in
            defer { told = .some(found.token) }
            return told != .some(found.token)
        }
        if isNew { source.yield(found.token) }
        return found.mount
    }

    /// Follows the daemon's events until the mount ends.
    private func follow(_ mount: Containers.Mounted, _ told: Lock<UbiquityIdentityToken??>) async {
        guard let connection = try? DaemonConnection(stateFolder: mount.stateFolder) else { return }
        // However the stream ends, the mount table is checked next.
        try? await connection.events { event in
            if [.listening, .identityChanged].contains(event.kind) { _ = await look(told) }
        }
        await connection.close()
    }
}
