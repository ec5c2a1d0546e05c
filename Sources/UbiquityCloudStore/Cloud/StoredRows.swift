/// The bytes that a row counts for, and the triggers that keep the sum of an account's rows in `accounts.stored`.
///
/// Rows are inserted, replaced and deleted. Updates change columns of a fixed length only.
enum StoredRows {
    /// Tables that grow with what an account stores, and their columns of any length.
    private static let tables: [(name: String, columns: [String])] = [
        ("items", ["name", "xattrs", "link", "stamps"]), ("versions", ["deviceName", "savedName", "manifest"]),
        ("commits", ["outcomes"]), ("lastCommits", ["deviceName"]), ("smallChunks", ["bytes"]),
    ]
    /// Bytes of a row's ids, numbers and indexes, roughly.
    private static let fixed = 256

    private static func size(_ columns: [String], of row: String) -> String {
        columns.reduce("\(fixed)") { "\($0) + coalesce(length(CAST(\(row).\($1) AS BLOB)), 0)" }
    }

    private static func belongsToContainer(_ table: String) -> Bool { table != "smallChunks" }

    /// Counts the rows of an account, in a statement about `accounts`.
    static let sum: String = tables.map { table, columns in
        let sum = "SELECT coalesce(sum(\(size(columns, of: table))), 0) FROM \(table)"
        return belongsToContainer(table)
            ? "(\(sum) JOIN containers ON containers.number = \(table).container "
                + "WHERE containers.account = accounts.number)"
            : "(\(sum) WHERE \(table).account = accounts.number)"
    }.joined(separator: " + ")

    static let triggers = tables.flatMap { ["\($0.name)Stored", "\($0.name)Dropped"] }

    static let setUp = "UPDATE accounts SET stored = \(sum);\n"
        + tables.map { table, columns in
            trigger("\(table)Stored", "INSERT", table, "NEW", "+", columns)
                + trigger("\(table)Dropped", "DELETE", table, "OLD", "-", columns)
        }.joined()

    private static func trigger(
        _ name: String, _ event: String, _ table: String, _ row: String, _ sign: String, _ columns: [String]
    ) -> String {
        let account = belongsToContainer(table)
            ? "(SELECT account FROM containers WHERE number = \(row).container)" : "\(row).account"
        return """
            CREATE TRIGGER \(name) AFTER \(event) ON \(table) BEGIN
                UPDATE accounts SET stored = stored \(sign) (\(size(columns, of: row))) WHERE number = \(account);
            END;

            """
    }
}
