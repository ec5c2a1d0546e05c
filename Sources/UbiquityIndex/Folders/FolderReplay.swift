import GRDB
internal import UbiquityCore

/// Finds the changes that a journal's statements make, so that the totals of folders follow them.
///
/// Use it before the statements run: it reads the rows as they were.
struct FolderReplay {
    private let reader: IndexReader
    private var changes = FolderChanges()

    private init(_ db: Database) { reader = IndexReader(db) }

    static func changes(_ batch: [[JournalStatement]], _ db: Database) throws -> FolderChanges {
        var replay = FolderReplay(db)
        do {
            for statement in batch.joined() { try replay.note(statement) }
        } catch let error as DatabaseError {
            throw error
        } catch {
            replay.changes.isIncomplete = true
        }
        return replay.changes
    }

    private mutating func note(_ statement: JournalStatement) throws {
        let sql = statement.sql, values = statement.values
        switch sql {
        case RowCoding.insert, RowCoding.delete: try note(key: values.first)
        case RowCoding.insertEntry: try note(key: values.count > 2 ? values[2] : nil)
        case RowCoding.deleteEntry: try noteItem(at: values)
        case RemoteCoding.store, RemoteCoding.forget: try note(record: values.first)
        // These change neither the version nor its availability.
        case RemoteCoding.setState, RemoteCoding.setStates, RemoteCoding.setEpoch: break
        default:
            if sql.hasPrefix(RowCoding.updateBeginning), sql.hasSuffix(RowCoding.updateEnd) {
                try note(key: values.last)
            } else if ["items", "entries", "remote"].contains(where: sql.contains) {
                changes.isIncomplete = true
            }
        }
    }

    private mutating func note(key value: SQLValue?) throws {
        guard case .int(let number) = value else { return changes.isIncomplete = true }
        let key = ItemKey(number)
        guard changes.items[key] == nil else { return }
        changes.items[key] = FolderChanges.Item(before: try reader.row(key: key), after: .unknown)
    }

    /// Records the item that has the name. A name given in the same batch is recorded with its item.
    private mutating func noteItem(at values: [SQLValue]) throws {
        let sql = "SELECT item FROM entries WHERE parent = ? AND name = ?"
        if let item = try reader.number(sql, values) { try note(key: .int(item)) }
    }

    private mutating func note(record value: SQLValue?) throws {
        guard case .id(let high, let low) = value else { return changes.isIncomplete = true }
        let id = ItemID(high: high, low: low)
        guard changes.records[id] == nil else { return }
        changes.records[id] = FolderChanges.Record(before: try reader.remotes.recordState(of: id), isUnknown: true)
    }
}
