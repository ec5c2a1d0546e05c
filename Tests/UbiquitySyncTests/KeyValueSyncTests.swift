import Logging
import Testing
import UbiquityCore
import UbiquityIndex
@testable import UbiquitySync
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// When and how key-values travel.
@Suite struct KeyValueSyncTests {
    /// A cloud that has one page, and accepts every set.
    private final class OneCloud: KeyValueService {
        struct State {
            var pushes: [KeyValuePush] = []
            var failure: UbiquityError?
        }
        let state = Lock(State())

        func keyValues(after point: KeyValuePoint) async throws -> KeyValuePage {
            if let failure = state.withLock({ $0.failure }) { throw failure }
            return KeyValuePage(
                records: [], revision: point.revision, hasMore: false, incarnation: 1, forgotten: .zero)
        }

        func push(_ push: KeyValuePush) async throws -> [KeyValueResult] {
            if let failure = state.withLock({ $0.failure }) { throw failure }
            let number = state.withLock { state in
                state.pushes.append(push)
                return Int64(state.pushes.count)
            }
            return push.changes.map { change in
                KeyValueResult(
                    outcome: .applied,
                    record: KeyValueRecord(
                        store: change.store, key: change.key, revision: Revision(number),
                        register: KeyValueRegister(change.entry)))
            }
        }

        func keyValueNews() -> AsyncStream<Revision> { AsyncStream { $0.finish() } }
    }

    private func sync(_ cloud: OneCloud) throws -> KeyValueSync {
        let time = SystemTimekeeper(), random = SystemRandom()
        let replica = try KeyValueReplica(
            KeyValueDatabase(path: nil), account: KeyValueReplica.Account(name: "a", isSignedOut: false),
            device: DeviceID(high: 1, low: 1), deviceName: "laptop", timekeeper: time, random: random)
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        return KeyValueSync(
            replica: replica, service: cloud, connection: Connection(timekeeper: time, random: random),
            environment: SyncEnvironment(
                timekeeper: time, random: random, pool: BlockingPool(name: "kv", threads: 1), logger: logger)
        ) { _ in }
    }

    @Test("KV-09: synchronize sends pending sets and reads the feed, and says why it cannot")
    func synchronizeSendsPendingSets() async throws {
        let cloud = OneCloud()
        let sync = try sync(cloud)
        let running = Task { await sync.run() }
        try sync.replica.set(.integer(1), KeyValueKey("k"), in: .standard)
        try await sync.synchronize()
        #expect(cloud.state.withLock { $0.pushes.flatMap(\.changes).map(\.key.text) } == ["k"])
        #expect(try sync.replica.pendingCount() == 0)
        cloud.state.withLock { $0.failure = UbiquityError(.offline, "no cloud") }
        try sync.replica.set(.integer(2), KeyValueKey("k"), in: .standard)
        await #expect(throws: UbiquityError.self) { try await sync.synchronize() }
        #expect(try sync.replica.pendingCount() == 1)
        running.cancel()
        await running.value
    }

    @Test("KV-06: a lone set does not wait, sets a second apart travel together, at most 15 requests in 90 seconds")
    func requestsAreLimited() {
        var pace = KeyValuePace()
        #expect(pace.wait(at: .seconds(100)) == .zero)
        var sent = [Duration](), now = Duration.seconds(100)
        // A set each second for five minutes.
        for second in 0..<300 {
            now = .seconds(100 + second)
            if pace.wait(at: now) == .zero {
                pace.record(at: now)
                sent.append(now)
            }
        }
        for time in sent { #expect(sent.count { $0 >= time && $0 < time + KeyValuePace.window } <= 15) }
        #expect(zip(sent, sent.dropFirst()).allSatisfy { $1 - $0 > .seconds(1) })
        // After a quiet time a set does not wait.
        #expect(pace.wait(at: now + KeyValuePace.window) == .zero)
        // Requests that programs wait for are limited too.
        var hurried = KeyValuePace()
        for _ in 0..<KeyValuePace.requests { hurried.record(at: .seconds(1)) }
        #expect(hurried.waitAtMost(at: .seconds(2)) == KeyValuePace.window - .seconds(1))
    }
}
