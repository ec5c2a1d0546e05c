public import FoundationEssentials
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Small values that all devices of an account share: preferences, a reading position, the state of a game.
///
///     let store = UbiquitousKeyValueStore.default
///     await store.synchronize()
///     store.set("dark", forKey: "theme")
///     for await change in store.externalChanges { apply(change.changedKeys.map { store.string(forKey: $0) }) }
///
/// A set changes the memory of this process at once; the mount's daemon then writes it to the disk and sends it. Call
/// `synchronize` at launch: it fills the memory. If two devices set one key, the later set wins on all devices. A store
/// has at most 1,024 keys, of at most 64 bytes each, and its values have at most 1 MiB together.
///
/// - Source: `NSUbiquitousKeyValueStore`.
public final class UbiquitousKeyValueStore: Sendable {
    /// A change that this program has not made.
    public struct ExternalChange: Hashable, Sendable {
        /// Why values have changed, with Foundation's numbers.
        public enum Reason: Int, Hashable, Sendable {
            /// Another device has set or removed them.
            case serverChange = 0
            /// The first download has replaced values that were set before it.
            case initialSyncChange = 1
            /// A set exceeded the store's limits. It has changed nothing.
            case quotaViolationChange = 2
            /// The device uses another account, with other values.
            case accountChange = 3
        }

        /// Why they have changed.
        public let reason: Reason
        /// The changed keys. Read the new values from the store.
        public let changedKeys: [String]
    }

    /// The most keys of a store.
    public static let maximumKeyCount = KeyValueLimits.maximumKeys
    /// The most bytes of all values of a store together. One value may have all of them.
    public static let maximumByteCount = KeyValueLimits.maximumBytes

    /// The store without an identifier, in the only mounted container.
    public static let `default` = UbiquitousKeyValueStore()

    /// The store's identifier, as a rule the app's.
    public let storeIdentifier: String
    private let container: URL?
    private let state = Lock(State())

    private struct State {
        var memory = KeyValueMemory()
        var worker: Task<Void, Never>?
        var wake: AsyncStream<Void>.Continuation?
        var listeners: [Int: AsyncStream<ExternalChange>.Continuation] = [:]
        var nextListener = 0
        var waiters: [CheckedContinuation<Bool, Never>] = []
    }

    /// How long to wait for a daemon that does not answer.
    private static let retryPause: Duration = .milliseconds(500)

    /// Makes a store. Nothing is read yet.
    ///
    /// - Parameters:
    ///   - storeIdentifier: The app's identifier: 1 to 64 letters, digits, ".", "_" and "-".
    ///   - container: A URL in the container; nil if only one is mounted.
    public init(storeIdentifier: String = "default", container: URL? = nil) {
        self.storeIdentifier = storeIdentifier
        self.container = container
    }

    deinit { state.withLock { $0.worker }?.cancel() }

    // MARK: Reading

    /// Returns the value of a key; nil if there is none.
    ///
    /// - Parameter key: The key.
    public func object(forKey key: String) -> PropertyListValue? {
        guard let key = try? KeyValueKey(key) else { return nil }
        return state.withLock { $0.memory.values[key] }.map(PropertyListValue.init)
    }

    /// Returns the text of a key; nil if there is none.
    ///
    /// - Parameter key: The key.
    public func string(forKey key: String) -> String? {
        if case .string(let text) = object(forKey: key) { text } else { nil }
    }

    /// Returns the array of a key; nil if there is none.
    ///
    /// - Parameter key: The key.
    public func array(forKey key: String) -> [PropertyListValue]? {
        if case .array(let values) = object(forKey: key) { values } else { nil }
    }

    /// Returns the dictionary of a key; nil if there is none.
    ///
    /// - Parameter key: The key.
    public func dictionary(forKey key: String) -> [String: PropertyListValue]? {
        if case .dictionary(let values) = object(forKey: key) { values } else { nil }
    }

    /// Returns the bytes of a key; nil if there are none.
    ///
    /// - Parameter key: The key.
    public func data(forKey key: String) -> Data? {
        if case .data(let data) = object(forKey: key) { data } else { nil }
    }

    /// Returns the moment of a key; nil if there is none.
    ///
    /// - Parameter key: The key.
    public func date(forKey key: String) -> Date? {
        if case .date(let date) = object(forKey: key) { date } else { nil }
    }

    /// Returns the whole number of a key; 0 if there is none.
    ///
    /// - Parameter key: The key.
    public func longLong(forKey key: String) -> Int64 {
        switch object(forKey: key) {
        case .integer(let number): number
        case .real(let number): Int64(exactly: number.rounded(.towardZero)) ?? 0
        case .bool(let flag): flag ? 1 : 0
        default: 0
        }
    }

    /// Returns the number of a key; 0 if there is none.
    ///
    /// - Parameter key: The key.
    public func double(forKey key: String) -> Double {
        switch object(forKey: key) {
        case .integer(let number): Double(number)
        case .real(let number): number
        case .bool(let flag): flag ? 1 : 0
        default: 0
        }
    }

    /// Returns the flag of a key; false if there is none.
    ///
    /// - Parameter key: The key.
    public func bool(forKey key: String) -> Bool {
        switch object(forKey: key) {
        case .bool(let flag): flag
        case .integer(let number): number != 0
        case .real(let number): number != 0
        default: false
        }
    }

    /// All keys with their values.
    public var dictionaryRepresentation: [String: PropertyListValue] {
        let values = state.withLock { $0.memory.values }
        return Dictionary(values.map { ($0.key.text, PropertyListValue($0.value)) }) { $1 }
    }

    // MARK: Setting

    /// Sets a value. Nil removes the key.
    ///
    /// A set over the limits changes nothing, and gives an external change with the reason `quotaViolationChange`. So
    /// does a key that is longer than 64 bytes.
    ///
    /// - Parameters:
    ///   - value: The value; nil removes the key.
    ///   - key: The key.
    public func set(_ value: PropertyListValue?, forKey key: String) {
        begin()
        do throws(UbiquityError) {
            let valid = try KeyValueKey(key), property = value?.property
            try state.withLock { state throws(UbiquityError) in try state.memory.set(property, valid) }
            state.withLock { $0.wake }?.yield()
        } catch {
            send(ExternalChange(reason: .quotaViolationChange, changedKeys: [key]))
        }
    }

    /// Sets a text.
    ///
    /// - Parameters:
    ///   - string: The text; nil removes the key.
    ///   - key: The key.
    public func set(_ string: String?, forKey key: String) { set(string.map(PropertyListValue.string), forKey: key) }
    /// Sets bytes.
    ///
    /// - Parameters:
    ///   - data: The bytes; nil removes the key.
    ///   - key: The key.
    public func set(_ data: Data?, forKey key: String) { set(data.map(PropertyListValue.data), forKey: key) }
    /// Sets a moment.
    ///
    /// - Parameters:
    ///   - date: The moment; nil removes the key.
    ///   - key: The key.
    public func set(_ date: Date?, forKey key: String) { set(date.map(PropertyListValue.date), forKey: key) }
    /// Sets an array.
    ///
    /// - Parameters:
    ///   - array: The values; nil removes the key.
    ///   - key: The key.
    public func set(_ array: [PropertyListValue]?, forKey key: String) {
        set(array.map(PropertyListValue.array), forKey: key)
    }
    /// Sets a dictionary.
    ///
    /// - Parameters:
    ///   - dictionary: The values by name; nil removes the key.
    ///   - key: The key.
    public func set(_ dictionary: [String: PropertyListValue]?, forKey key: String) {
        set(dictionary.map(PropertyListValue.dictionary), forKey: key)
    }
    /// Sets a whole number.
    ///
    /// - Parameters:
    ///   - number: The number.
    ///   - key: The key.
    public func set(_ number: Int64, forKey key: String) { set(PropertyListValue.integer(number), forKey: key) }
    /// Sets a whole number.
    ///
    /// - Parameters:
    ///   - number: The number.
    ///   - key: The key.
    public func set(_ number: Int, forKey key: String) { set(Int64(number), forKey: key) }
    /// Sets a number.
    ///
    /// - Parameters:
    ///   - number: The number.
    ///   - key: The key.
    public func set(_ number: Double, forKey key: String) { set(PropertyListValue.real(number), forKey: key) }
    /// Sets a flag.
    ///
    /// - Parameters:
    ///   - flag: The flag.
    ///   - key: The key.
    public func set(_ flag: Bool, forKey key: String) { set(PropertyListValue.bool(flag), forKey: key) }

    /// Removes a key.
    ///
    /// - Parameter key: The key.
    public func removeObject(forKey key: String) { set(PropertyListValue?.none, forKey: key) }

    // MARK: The disk

    /// Brings memory and disk together: the sets of this program are on the disk, and the memory has the values of the
    /// disk. It does not wait for the cloud.
    ///
    /// - Returns: False if the mount's daemon does not answer. Then the sets stay in memory, and are written later.
    @discardableResult public func synchronize() async -> Bool {
        begin()
        return await withCheckedContinuation { waiter in
            state.withLock { $0.waiters.append(waiter) }
            state.withLock { $0.wake }?.yield()
        }
    }

    // MARK: External changes

    /// The changes from now on that this program has not made.
    ///
    /// - Source: `NSUbiquitousKeyValueStoreDidChangeExternallyNotification`.
    public var externalChanges: AsyncStream<ExternalChange> {
        begin()
        let (stream, source) = AsyncStream.makeStream(of: ExternalChange.self)
        let number = state.withLock { state in
            state.nextListener += 1
            state.listeners[state.nextListener] = source
            return state.nextListener
        }
        source.onTermination = { [weak self] _ in self?.forget(number) }
        return stream
    }

    private func forget(_ number: Int) { state.withLock { _ = $0.listeners.removeValue(forKey: number) } }

    private func send(_ change: ExternalChange) {
        for source in state.withLock({ Array($0.listeners.values) }) { source.yield(change) }
    }

    // MARK: The worker

    /// Starts the task that exchanges values with the daemon.
    private func begin() {
        state.withLock { state in
            guard state.worker == nil else { return }
            state.worker = Task { [weak self] in
                while !Task.isCancelled {
                    if let place = self?.place() { await Self.work(place) { [weak self] in self } }
                    guard self?.answer(false) != nil else { return }
                    try? await Task.sleep(for: Self.retryPause)
                }
            }
        }
    }

    /// The state folder of the container; nil if it is not mounted.
    private func place() -> String? {
        let sources = try? QuerySource.all(of: [.ubiquitousDocuments], container: container)
        return sources?.first?.stateFolder
    }

    /// Exchanges values until the daemon ends or does not answer.
    private static func work(
        _ place: String, _ store: @escaping @Sendable () -> UbiquitousKeyValueStore?
    ) async {
        guard let connection = try? DaemonConnection(stateFolder: place) else { return }
        let (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        wake.yield()
        store()?.state.withLock { $0.wake = wake }
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                // Its end, whatever the reason, ends the exchange.
                try? await connection.events { event in
                    guard let store = store() else { throw CancellationError() }
                    try await store.receive(event, connection)
                }
            }
            group.addTask {
                for await _ in wakes {
                    guard let store = store() else { return }
                    guard (try? await store.exchange(connection)) != nil else { return }
                }
            }
            await group.next()
            group.cancelAll()
        }
        await connection.close()
    }

    private func receive(_ event: ControlEvent, _ connection: DaemonConnection) async throws {
        switch event.kind {
        case .listening, .overflow: try await load(connection, reason: nil)
        case .keyValuesChanged where event.store == storeIdentifier:
            let reason = KeyValueReason.allCases.first { $0.name == event.reason }
                .flatMap { ExternalChange.Reason(rawValue: $0.rawValue) } ?? .serverChange
            try await load(connection, reason: reason, keys: event.changedKeys ?? [])
        default: break
        }
    }

    /// Writes the sets of this program, and reads the values.
    private func exchange(_ connection: DaemonConnection) async throws {
        while let set = state.withLock({ $0.memory.unwritten.first }) {
            do {
                if let value = set.value {
                    _ = try await connection.setKeyValue(set.key.text, in: storeIdentifier, to: value)
                } else {
                    _ = try await connection.removeKeyValue(set.key.text, in: storeIdentifier)
                }
                state.withLock { $0.memory.wrote(set.key, set.value) }
            } catch let error as UbiquityError {
                // A removed key that the daemon does not have is removed. Any other refusal is announced: values of
                // other devices have filled the store meanwhile.
                state.withLock { $0.memory.refused(set.key) }
                guard error.code != .notFound, error.code != .quotaExceeded else { continue }
                send(ExternalChange(reason: .quotaViolationChange, changedKeys: [set.key.text]))
            }
        }
        try await load(connection, reason: nil)
        answer(true)
    }

    private func load(
        _ connection: DaemonConnection, reason: ExternalChange.Reason?, keys: [String] = []
    ) async throws {
        let list = try await connection.keyValues(in: storeIdentifier)
        let (changed, isOtherAccount) = try state.withLock { state throws(UbiquityError) in
            try state.memory.load(list)
        }
        if let reason {
            send(ExternalChange(reason: reason, changedKeys: keys))
        } else if isOtherAccount, !changed.isEmpty {
            send(ExternalChange(reason: .accountChange, changedKeys: changed.map(\.text)))
        }
    }

    /// Answers those who wait for `synchronize`.
    private func answer(_ isDone: Bool) {
        let waiters = state.withLock { state in
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume(returning: isDone) }
    }
}
