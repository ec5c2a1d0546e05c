import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// The commands of a mount, for the routes of the local socket.
///
/// `ControlRoutes`, `CoordinationRoutes` and `QueryRoutes` register them. Each command type has its own state and calls
/// the parts of the mount. `EventPump` and `QueryPump` feed the two hubs.
struct MountCommands: Sendable {
    let parts: MountParts
    let events: EventHub
    let queries = QueryHub()
    let account: AccountCommand
    let administration: AdministrationCommands
    let coordination: CoordinationCommands
    let items: ItemCommands
    let keyValues: KeyValueCommands
    let publish: PublishCommands
    let status: StatusCommand
    let trash: TrashCommands
    let unmount: UnmountCommand
    let versions: VersionCommands
    let wait: WaitCommand

    init(_ parts: MountParts, _ merges: MergeRunner, ending: MountEnding, follower: AccountFollower) {
        self.parts = parts
        events = ending.events
        account = AccountCommand(follower: follower)
        administration = AdministrationCommands(parts: parts)
        coordination = CoordinationCommands(parts: parts)
        items = ItemCommands(parts: parts)
        keyValues = KeyValueCommands(parts: parts, events: events)
        publish = PublishCommands(parts: parts)
        status = StatusCommand(parts: parts)
        trash = TrashCommands(parts: parts)
        unmount = UnmountCommand(parts: parts, ending: ending)
        versions = VersionCommands(parts: parts, merges: merges)
        wait = WaitCommand(parts: parts)
    }
}

/// `login`, `logout` and `documents` tell each mount of the device that the account may have changed.
struct AccountCommand: Sendable {
    let follower: AccountFollower

    func follow(_ wanted: AccountRequest) async throws -> AccountReport { try await follower.follow() }
}

/// A command, or a part of one, that works on a mount.
protocol MountCommand: Sendable {
    var parts: MountParts { get }
}

extension MountCommand {
    var engine: SyncEngine { parts.engine }
    var index: ItemIndex { parts.index }
    var pool: BlockingPool { parts.pool }

    /// Throws on a read-only mount: commands must not do what programs may not.
    func requireWritable() throws {
        if parts.fileSystem.isVacant {
            throw UbiquityError(
                .signedOut, parts.engine.connection.status.reason, at: parts.settings.mountPoint,
                remedy: "sign in: ubiquity login")
        }
        guard !parts.settings.options.contains(where: { $0.split(separator: ",").contains("ro") }) else {
            throw UbiquityError(.notPermitted, "this mount is read-only", at: parts.settings.mountPoint)
        }
    }
}

extension Timestamp {
    /// The time in messages: seconds since 1970.
    var seconds: Double { Double(nanoseconds) / 1e9 }
}
