import UbiquityCore
import UbiquitySystem

/// The log in a folder: of a container, where files may be placeholders, or of the local disk.
struct FolderLogStore: LogStore {
    let path: String

    init(_ path: String) { self.path = path }

    private func place(_ name: String) -> String { Path.join(path, name) }

    func files() throws -> [LogFile] {
        var result: [LogFile] = []
        for top in ["logs", "devices", "base"] { try add(top, to: &result) }
        return result
    }

    private func add(_ name: String, to result: inout [LogFile]) throws {
        let entries: [DirectoryEntry]
        do throws(Errno) { entries = try FileSystem.entries(of: place(name)) } catch .ENOENT { return } catch {
            throw UbiquityError(error, doing: "list the database's log", at: place(name))
        }
        for entry in entries {
            let child = Path.join(name, entry.text)
            // A file may go between the listing and this call.
            guard let status = try? FileSystem.status(place(child)) else { continue }
            if status.isDirectory { try add(child, to: &result) }
            if status.isFile { result.append(LogFile(child, size: Int(status.size))) }
        }
    }

    /// Reading a placeholder downloads it.
    func read(_ name: String, from offset: Int) throws -> [UInt8]? {
        do throws(Errno) {
            let file = try FileDescriptor.openFile(place(name), .readOnly)
            let size = Int(try file.status().size)
            return try file.read(count: max(0, size - offset), at: Int64(offset))
        } catch where Self.isAbsence(error) {
            return nil
        } catch {
            throw UbiquityError(error, doing: "read the database's log", at: place(name))
        }
    }

    /// Errors that pass when the file arrives or the network is back.
    private static func isAbsence(_ error: Errno) -> Bool {
        [.ENOENT, .EAGAIN, .ENETUNREACH, .ETIMEDOUT, .ENOTCONN, .ECONNREFUSED, .ESTALE].contains(error)
    }

    func append(_ bytes: [UInt8], to name: String, at offset: Int) throws {
        try prepare(name)
        try describing("write the database's log", at: place(name)) { () throws(Errno) in
            let file = try FileDescriptor.openFile(place(name), [.readWrite, .create])
            if Int(try file.status().size) > offset { try file.truncate(to: Int64(offset)) }
            try file.write(bytes, at: Int64(offset))
            try file.syncData()
        }
    }

    func replace(_ name: String, with bytes: [UInt8]) throws {
        try prepare(name)
        try SmallFile.publish(bytes, at: place(name))
    }

    func remove(_ name: String) throws {
        do throws(Errno) { try FileSystem.unlink(place(name)) } catch .ENOENT {} catch {
            throw UbiquityError(error, doing: "remove an old part of the database's log", at: place(name))
        }
        // The folder of a base goes with its last file.
        try? FileSystem.removeDirectory(Path.parent(of: place(name)))
    }

    private func prepare(_ name: String) throws {
        try describing("make the folder of the database's log", at: path) { () throws(Errno) in
            try FileSystem.makeDirectories(Path.parent(of: place(name)))
        }
    }
}
