import GRDB
internal import UbiquityCore
internal import UbiquitySystem

/// Identifies the file of a cloud's database. A folder that was copied back has another file: its data is older than
/// the devices' knowledge, though nothing in it shows that.
struct DatabasePlace: Equatable {
    private var device: Int64
    private var inode: Int64
    /// When the file was created, in nanoseconds; nil where the file system does not record it.
    private var birth: Int64?

    init(of path: String) throws {
        (device, inode, birth) = try describing("examine the cloud's database", at: path) { () throws(Errno) in
            // By path only: closing another descriptor of the database would release all locks that SQLite holds on it
            // in this process (POSIX). Another program's SQLite would then remove the log in use.
            let file = try FileDescriptor.open(path, .pathOnly)
            let status = try file.status()
            return (
                Int64(bitPattern: status.device), Int64(bitPattern: status.inode), try file.createdAt()?.nanoseconds
            )
        }
    }

    private init?(_ db: Database) throws {
        func value(_ name: String) throws -> Int64? {
            try Int64.fetchOne(db, sql: "SELECT value FROM meta WHERE name = ?", arguments: [name])
        }
        guard let device = try value("databaseDevice"), let inode = try value("databaseInode") else { return nil }
        self.device = device
        self.inode = inode
        birth = try value("databaseBirth")
    }

    /// Whether the database was another file when it was last open. Then, and the first time, the new identity is
    /// stored.
    ///
    /// If the file's creation time is known, it decides: the disk's number may change at each start of the machine.
    func isNew(in db: Database) throws -> Bool {
        let known = try Self(db)
        guard known != self else { return false }
        let values: [(String, Int64?)] = [
            ("databaseDevice", device), ("databaseInode", inode), ("databaseBirth", birth),
        ]
        for (name, value) in values {
            try db.execute(sql: "INSERT OR REPLACE INTO meta VALUES (?, ?)", arguments: [name, value])
        }
        guard let known else { return false }
        if let birth, let before = known.birth { return birth != before || inode != known.inode }
        return device != known.device || inode != known.inode
    }
}
