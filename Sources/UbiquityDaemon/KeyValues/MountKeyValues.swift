import Logging
import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityWire

/// The key-value stores of a mounted container: their file, their exchange with the cloud, and their news.
///
/// The file is `<state>/.kv/<container>.db`. It has the values of every account that the device has used, so that a
/// switch of the account is one transaction. No account's folder has a name with a dot in front.
final class MountKeyValues: Sendable {
    let replica: KeyValueReplica
    let sync: KeyValueSync
    let relay: KeyValueRelay
    /// The account's name in the file.
    let account: String
    private let database: KeyValueDatabase
    private let logger: Logger
    private let pool: BlockingPool

    init(
        _ idle: IdleParts, _ settings: MountSettings, _ owner: KeyValueReplica.Account,
        _ service: any KeyValueService, _ logger: Logger
    ) throws {
        let place = Path.join(settings.deviceFolder, ".kv")
        try describing("create the folder of key-values", at: place) { () throws(Errno) in
            try FileSystem.makeDirectories(place)
            try FileSystem.syncPath(to: place)
        }
        account = owner.name
        self.logger = logger
        pool = idle.pool
        database = try KeyValueDatabase(path: Path.join(place, settings.container.name + ".db"))
        let random = SystemRandom(), timekeeper = SystemTimekeeper()
        replica = try KeyValueReplica(
            database, account: owner, device: idle.identity.id, deviceName: idle.identity.name,
            timekeeper: timekeeper, random: random)
        let relay = KeyValueRelay()
        self.relay = relay
        relay.tell(replica.arrival)
        sync = KeyValueSync(
            replica: replica, service: service, connection: idle.engine.connection,
            environment: SyncEnvironment(timekeeper: timekeeper, random: random, pool: idle.pool, logger: logger)
        ) { relay.tell($0) }
    }

    /// Runs until the task is cancelled.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.sync.run() }
            group.addTask { await self.recordVersion() }
            await group.waitForAll()
        }
    }

    func close() {
        do { try database.close() } catch {
            logger.warning("cannot close the key-values", metadata: ["reason": "\(error)"])
        }
    }

    // MARK: The highest version

    private static let versionKey = "highest-version"

    /// Records this program's version in the reserved store if it is the highest, and warns if it is not.
    private func recordVersion() async {
        do {
            try await sync.awaitFirstReading()
            let newer = try await pool.run { [self] in try compareVersions() }
            guard let newer else { return }
            logger.warning(
                "version \(newer) of ubiquity has used this container: update this device",
                metadata: ["version": "\(ProgramVersion.text)"])
        } catch {
            guard !Task.isCancelled else { return }
            logger.debug("cannot compare the program's versions", metadata: ["reason": "\(error)"])
        }
    }

    /// - Returns: the highest version if it is above this program's.
    private func compareVersions() throws -> String? {
        let key = try KeyValueKey(Self.versionKey)
        if let bytes = try replica.item(key, in: .reserved)?.current.value,
            case .string(let highest) = try PropertyValue(encoded: bytes)
        {
            if Self.isVersion(ProgramVersion.text, below: highest) { return highest }
            if highest == ProgramVersion.text { return nil }
        }
        try replica.set(.string(ProgramVersion.text), key, in: .reserved)
        sync.changesWereMade()
        return nil
    }

    /// Compares versions number by number: 0.9.0 is below 0.10.0.
    static func isVersion(_ first: String, below second: String) -> Bool {
        let parts = [first, second].map { $0.split(separator: ".").map { Int($0) ?? 0 } }
        return parts[0].lexicographicallyPrecedes(parts[1])
    }
}

/// Passes news of key-values to the listeners at the local socket. It keeps the news of a switch of the account until
/// there is a listener: the switch happens before the mount serves.
final class KeyValueRelay: Sendable {
    private struct State {
        var receive: (@Sendable ([KeyValueNews]) -> Bool)?
        var unheard: [KeyValueNews] = []
    }

    private let state = Lock(State())

    /// - Parameter receive: passes news on. It returns whether anybody listens.
    func bind(_ receive: @escaping @Sendable ([KeyValueNews]) -> Bool) { state.withLock { $0.receive = receive } }

    func tell(_ news: [KeyValueNews]) {
        guard !news.isEmpty else { return }
        let receive = state.withLock { $0.receive }
        if let receive, receive(news) { return }
        state.withLock { $0.unheard += news.filter { $0.reason == .accountChange } }
    }

    func takeUnheard() -> [KeyValueNews] {
        state.withLock { state in
            defer { state.unheard = [] }
            return state.unheard
        }
    }
}

/// The embedded cloud as a `KeyValueService`. A call starts the cloud if it is not running.
struct EmbeddedKeyValues: KeyValueService {
    let base: any KeyValueService
    let embedded: EmbeddedCloudService

    func keyValues(after point: KeyValuePoint) async throws -> KeyValuePage {
        try await embedded.reaching { try await base.keyValues(after: point) }
    }

    func push(_ push: KeyValuePush) async throws -> [KeyValueResult] {
        try await embedded.reaching { try await base.push(push) }
    }

    func keyValueNews() -> AsyncStream<Revision> { base.keyValueNews() }
}

extension DeviceAccount {
    /// The account of the key-values. Nil between two accounts.
    ///
    /// While documents are off the values stay, and sets wait. A device that is signed out has values of its own, which
    /// the next account gets. The account of the embedded cloud counts as signed out.
    func keyValueAccount(ofDevice device: String) throws(UbiquityError) -> KeyValueReplica.Account? {
        let signIn: SignIn?
        switch self {
        case .signedOut(let former):
            return former.account.isEmpty ? nil : KeyValueReplica.Account(name: "+signed-out", isSignedOut: true)
        case .changing: return nil
        case .embedded: signIn = nil
        case .signedIn(let present): signIn = present
        case .off(let present): signIn = present
        }
        let folder = try AccountFolder(device: device, signIn: signIn).path
        return KeyValueReplica.Account(
            name: String(folder.split(separator: "/").last ?? ""), isSignedOut: signIn == nil)
    }
}
