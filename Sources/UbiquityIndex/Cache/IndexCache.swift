internal import UbiquityCore
internal import UbiquitySystem

/// The part of the index that is in memory. Most operations of programs need no database query.
///
/// Each part is a cache of its own with its own lock. Transactions and the queries of `ItemIndex` use them; the cache
/// calls nothing.
final class IndexCache: Sendable {
    /// Recently used rows and names.
    let rows = RowCache()
    /// Guesses of the next name of a walk.
    let namesInOrder = Lock(NamesInOrder())
    /// Contents that may have a record.
    let recorded = Lock(RecordedContents(newest: ContentID(.max)))
    /// Contents that replaced others.
    let replaced = ReplacedContents()
    private let updateStatements = Lock<[UInt32: String]>([:])

    /// Returns the SQL text that updates these columns (`RowCoding.difference`).
    func updateStatement(_ mask: UInt32) -> String {
        updateStatements.withLock { known in
            if let text = known[mask] { return text }
            let text = RowCoding.update(mask)
            known[mask] = text
            return text
        }
    }
}
