import GRDB
import GRDBSQLite
internal import UbiquitySystem

/// Read-only connections, one per thread that reads at the same moment.
///
/// They replace GRDB's pool, which queries the database's schema before each read.
final class ReadConnections: Sendable {
    /// Maximum idle connections kept.
    private static let maximumIdle = 4

    private struct State {
        var idle: [DatabaseQueue] = []
        var isClosed = false
    }

    private let path: String
    private let configuration: Configuration
    private let state = Lock(State())

    init(path: String, configuration: Configuration) {
        self.path = path
        var configuration = configuration
        configuration.readonly = true
        self.configuration = configuration
    }

    func read<T>(_ body: (Database) throws -> T) throws -> T {
        let connection = try take()
        defer { put(connection) }
        return try connection.unsafeRead(body)
    }

    private func take() throws -> DatabaseQueue {
        let (idle, isClosed) = state.withLock { ($0.idle.popLast(), $0.isClosed) }
        if isClosed { throw DatabaseError(resultCode: .SQLITE_MISUSE, message: "the index is closed") }
        return try idle ?? DatabaseQueue(path: path, configuration: configuration)
    }

    /// Surplus connections, and those returned after `close`, close when they are released.
    private func put(_ connection: DatabaseQueue) {
        state.withLock {
            if !$0.isClosed, $0.idle.count < Self.maximumIdle { $0.idle.append(connection) }
        }
    }

    /// Frees the page caches of idle connections.
    func releaseMemory() {
        let idle = state.withLock { state in
            defer { state.idle = [] }
            return state.idle
        }
        defer { idle.forEach(put) }
        for connection in idle {
            connection.unsafeRead { db in _ = sqlite3_db_release_memory(db.sqliteConnection) }
        }
    }

    func close() throws {
        let idle = state.withLock { state in
            state.isClosed = true
            defer { state.idle = [] }
            return state.idle
        }
        for connection in idle { try connection.close() }
    }
}
