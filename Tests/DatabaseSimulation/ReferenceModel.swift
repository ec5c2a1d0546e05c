import GRDB
import UbiquityDatabase

/// All rows of all tables, by table and key.
package typealias TablePicture = [String: [[DatabaseValue]: [String: DatabaseValue]]]

/// The expected tables at the end, computed from all writes of all devices: the last writer of each column wins.
/// It knows nothing of logs, clocks and merges.
package struct ReferenceModel {
    package struct Write {
        package enum Kind {
            case insert([String: DatabaseValue])
            case update([String: DatabaseValue])
            case delete
        }

        package var table: String
        package var key: [DatabaseValue]
        package var kind: Kind
    }

    package struct Transaction {
        package var stamp: Stamp
        package var writes: [Write]
    }

    package var transactions: [Transaction] = []

    package init() {}

    /// The writes that lead from one picture to another.
    package static func writes(from old: TablePicture, to new: TablePicture) -> [Write] {
        var result: [Write] = []
        for (table, rows) in new {
            for (key, values) in rows {
                guard let before = old[table]?[key] else {
                    result.append(Write(table: table, key: key, kind: .insert(values)))
                    continue
                }
                let changed = values.filter { before[$0.key] != $0.value }
                if !changed.isEmpty { result.append(Write(table: table, key: key, kind: .update(changed))) }
            }
            for key in (old[table] ?? [:]).keys where rows[key] == nil {
                result.append(Write(table: table, key: key, kind: .delete))
            }
        }
        return result
    }

    package func picture(_ schema: RandomSchema, _ version: Int) -> TablePicture {
        var result: TablePicture = [:]
        for table in schema.tables(version) { result[table.name] = liveRows(table, version) }
        for table in schema.tables(version) where table.hasCheck && table.columns.contains("c1") {
            result[table.name] = result[table.name]?.filter { _, row in
                guard let first = row["c0"].flatMap(Int.fromDatabaseValue),
                    let second = row["c1"].flatMap(Int.fromDatabaseValue)
                else { return true }
                return first + second < 150
            }
        }
        // A row is shown if its parent is shown.
        var hasChanged = true
        while hasChanged {
            hasChanged = false
            for table in schema.tables(version) {
                guard let parent = table.parent else { continue }
                let parents = result[parent.name] ?? [:]
                let shown = (result[table.name] ?? [:]).filter { _, row in
                    guard let key = row["parent"], !key.isNull else { return true }
                    return parents[[key]] != nil
                }
                if shown.count != result[table.name]?.count { hasChanged = true }
                result[table.name] = shown
            }
        }
        return result
    }

    private func liveRows(
        _ table: RandomSchema.Table, _ version: Int
    ) -> [[DatabaseValue]: [String: DatabaseValue]] {
        struct State {
            var inserted: Stamp?
            var deleted: Stamp?
            var cells: [String: [(Stamp, DatabaseValue)]] = [:]
        }
        var defaults: [String: DatabaseValue] = [:]
        for column in table.columns { defaults[column] = 0.databaseValue }
        if version > 1, table.name != "late" { defaults["added"] = RandomSchema.addedDefault.databaseValue }
        if table.parent != nil { defaults["parent"] = .null }
        var rows: [[DatabaseValue]: State] = [:]
        for seed in 0..<table.seeds {
            let key = ["seed\(seed)".databaseValue] + (table.hasTwoKeys ? [1.databaseValue] : [])
            rows[key] = State(inserted: .migration, cells: defaults.mapValues { [(.migration, $0)] })
        }
        for transaction in transactions {
            for write in transaction.writes where write.table == table.name {
                var state = rows[write.key] ?? State()
                switch write.kind {
                case .insert(let values):
                    state.inserted = max(state.inserted ?? transaction.stamp, transaction.stamp)
                    for (column, value) in values { state.cells[column, default: []].append((transaction.stamp, value)) }
                case .update(let values):
                    for (column, value) in values { state.cells[column, default: []].append((transaction.stamp, value)) }
                case .delete: state.deleted = max(state.deleted ?? transaction.stamp, transaction.stamp)
                }
                rows[write.key] = state
            }
        }
        return rows.compactMapValues { state in
            guard let inserted = state.inserted, state.deleted.map({ inserted > $0 }) ?? true else { return nil }
            var row = defaults
            for (column, writes) in state.cells {
                let valid = writes.filter { write in state.deleted.map { write.0 > $0 } ?? true }
                if let last = valid.max(by: { $0.0 < $1.0 }) { row[column] = last.1 }
            }
            return row
        }
    }
}
