package import UbiquityCore
internal import UbiquitySystem
package import UbiquityWire

/// The key-value stores of one container of a cloud in this process.
struct ContainerKeyValues: KeyValueService {
    let service: ContainerService

    private var cloud: Cloud { service.cloud }

    func keyValues(after point: KeyValuePoint) async throws -> KeyValuePage {
        guard point.revision >= .zero else { throw UbiquityError(.invalid, "a revision is negative") }
        return try await cloud.pool.run { [self] in
            let found = try service.made()
            return try cloud.read { db in
                let tables = KeyValueTables(db: db, container: found.number)
                let feed = try tables.feed()
                let (records, hasMore) = try tables.records(after: point.revision, limit: KeyValueLimits.pageBytes)
                let end = hasMore ? records.last?.revision ?? feed.revision : feed.revision
                return KeyValuePage(
                    records: records, revision: end, hasMore: hasMore, incarnation: service.incarnation(of: found),
                    forgotten: feed.forgotten)
            }
        }
    }

    func push(_ push: KeyValuePush) async throws -> [KeyValueResult] {
        let (number, revision, results) = try await cloud.commits.run(for: service.account) {
            try await cloud.pool.run { [self] in
                let found = try service.made()
                try cloud.requireRoom(for: push.changes.reduce(0) { $0 + $1.entry.size })
                return try cloud.write { db in
                    let tables = KeyValueTables(db: db, container: found.number)
                    let results = try tables.apply(push, now: cloud.timekeeper.now())
                    return (found.number, try tables.feed().revision, results)
                }
            }
        }
        cloud.keyValueNews.tell(revision, of: number)
        return results
    }

    func keyValueNews() -> AsyncStream<Revision> {
        let (stream, source) = AsyncStream.makeStream(of: Revision.self, bufferingPolicy: .bufferingNewest(1))
        let task = Task {
            defer { source.finish() }
            let found = try await cloud.pool.run { [self] in
                try cloud.read { db in
                    let found = try service.required(db)
                    return (found.number, try KeyValueTables(db: db, container: found.number).feed().revision)
                }
            }
            for try await revision in cloud.keyValueNews.stream(of: found.0, from: found.1) { source.yield(revision) }
        }
        source.onTermination = { _ in task.cancel() }
        return stream
    }
}

extension Cloud {
    /// The key-value stores of one container, as one device sees them. Throws `.notFound` if there is no such account.
    /// - Parameter isReadOnly: whether the container must not be created.
    package func keyValues(
        account: String, container: ContainerID, isReadOnly: Bool = false
    ) async throws -> any KeyValueService {
        let account = try await pool.run { try self.account(named: account) }
        return ContainerKeyValues(
            service: ContainerService(cloud: self, account: account, container: container, mayCreate: !isReadOnly))
    }
}
