import Ubiquity
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Watches the folder of a log for files of other devices, and the account and the cloud for its status.
final class FolderWatch: Sendable {
    private struct State {
        var isOffline = false
        var isSignedOut = false
        var account: UbiquityIdentityToken?
    }

    /// The time between two looks at a folder outside a mount, or at a mount that has ended.
    private static let interval = Duration.milliseconds(250)

    private let folder: String
    private let state = Lock(State())
    private let arrived: @Sendable () -> Void

    init(_ folder: String, arrived: @escaping @Sendable () -> Void) {
        self.folder = folder
        self.arrived = arrived
    }

    var isOffline: Bool { state.withLock { $0.isOffline } }
    var isSignedOut: Bool { state.withLock { $0.isSignedOut } }

    /// Runs until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            if let place = try? MountFinder.locate(folder) {
                await follow(place)
            } else {
                arrived()
            }
            do { try await Sleepers.shared.sleep(for: Self.interval) } catch { return }
        }
    }

    private func follow(_ place: PathResolver.Location) async {
        let stateFolder = String(decoding: place.stateFolder, as: UTF8.self)
        guard let connection = try? DaemonConnection(stateFolder: stateFolder) else { return }
        let prefix = String(decoding: place.relativePath, as: UTF8.self)
        look(place)
        // However the stream ends, the mount table is checked next.
        try? await connection.events { event in
            switch event.kind {
            case .listening, .overflow:
                if let status = try? await connection.status() { set(status.cloud.state) }
                arrived()
            case .state: if let state = event.state { set(state) }
            case .identityChanged: look(place)
            default:
                if event.path?.hasPrefix(prefix) == true || event.oldPath?.hasPrefix(prefix) == true { arrived() }
            }
        }
        await connection.close()
    }

    private func set(_ contact: CloudContact.State) {
        state.withLock { $0.isOffline = contact != .online }
        arrived()
    }

    /// Compares the account of the mount with the one at the start.
    private func look(_ place: PathResolver.Location) {
        let name = String(decoding: place.stateFolder, as: UTF8.self).split(separator: "/").last.map(String.init)
        let token = UbiquityFileManager.default.ubiquityIdentityToken(ofContainer: name)
        state.withLock { state in
            if state.account == nil { state.account = token }
            state.isSignedOut = token == nil || token != state.account
        }
        arrived()
    }
}
