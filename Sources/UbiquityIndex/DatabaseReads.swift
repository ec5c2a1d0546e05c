import GRDB
import GRDBSQLite
internal import UbiquitySystem

/// Has the kernel bring pages of a database along with one that came from the disk (`NearbyReads`).
///
/// SQLite asks for one page at a time, and knows a file only by the functions that its VFS gave it: they are exchanged
/// for a copy with another `xRead`, in memory that has beside it what that one needs.
enum DatabaseReads {
    /// One for each connection, which one thread uses at a time.
    private struct Hook {
        var methods: sqlite3_io_methods
        let base: UnsafePointer<sqlite3_io_methods>
        /// From which on a page came from the disk.
        let slow: Duration
        var nearby = NearbyReads()
    }

    private typealias File = UnsafeMutablePointer<sqlite3_file>

    /// Does nothing where a connection has no file.
    static func attach(to db: Database, slow: Duration = NearbyReads.slow) {
        var pointer: UnsafeMutableRawPointer?
        guard sqlite3_file_control(db.sqliteConnection, "main", SQLITE_FCNTL_FILE_POINTER, &pointer) == SQLITE_OK,
            let file = pointer?.assumingMemoryBound(to: sqlite3_file.self), let base = file.pointee.pMethods
        else { return }
        let hook = UnsafeMutablePointer<Hook>.allocate(capacity: 1)
        var methods = base.pointee
        methods.xRead = { file, bytes, count, offset in DatabaseReads.read(file, bytes, count, offset) }
        methods.xClose = { file in DatabaseReads.close(file) }
        hook.initialize(to: Hook(methods: methods, base: base, slow: slow))
        file.pointee.pMethods = UnsafePointer(hook.pointer(to: \.methods))
    }

    /// Of a file that has one.
    private static func hook(of file: File) -> UnsafeMutablePointer<Hook>? {
        guard let methods = file.pointee.pMethods, let offset = MemoryLayout<Hook>.offset(of: \.methods) else {
            return nil
        }
        return UnsafeMutableRawPointer(mutating: UnsafeRawPointer(methods)).advanced(by: -offset)
            .assumingMemoryBound(to: Hook.self)
    }

    private static func read(
        _ file: File?, _ bytes: UnsafeMutableRawPointer?, _ count: CInt, _ offset: sqlite3_int64
    ) -> CInt {
        guard let file, let hook = hook(of: file), let read = hook.pointee.base.pointee.xRead else {
            return SQLITE_IOERR
        }
        let clock = SystemTimekeeper(), start = clock.uptime()
        let code = read(file, bytes, count, offset)
        guard code == SQLITE_OK, clock.uptime() - start >= hook.pointee.slow,
            let range = hook.pointee.nearby.note(slowReadAt: offset)
        else { return code }
        // What it returns is not used; where the file ends it reads less.
        withUnsafeTemporaryAllocation(byteCount: range.count, alignment: 1) { scratch in
            _ = read(file, scratch.baseAddress, CInt(range.count), range.lowerBound)
        }
        return code
    }

    private static func close(_ file: File?) -> CInt {
        guard let file, let hook = hook(of: file), let close = hook.pointee.base.pointee.xClose else {
            return SQLITE_IOERR
        }
        file.pointee.pMethods = hook.pointee.base
        hook.deinitialize(count: 1)
        hook.deallocate()
        return close(file)
    }
}
