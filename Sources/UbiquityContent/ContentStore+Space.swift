package import UbiquityCore
package import UbiquitySystem

/// The disk usage of the contents.
package struct StoreUsage: Hashable, Sendable {
    package var files = 0
    /// Allocated bytes. For a partial content they are less than its size.
    package var bytes: Int64 = 0
}

extension ContentStore {
    /// Reads the status of every file: about 2 µs each.
    package func usage() throws(UbiquityError) -> StoreUsage {
        var usage = StoreUsage()
        for id in try all() {
            guard let status = try status(of: id) else { continue }
            usage.files += 1
            usage.bytes += status.allocatedBytes
        }
        return usage
    }

    /// An empty file without a name on the store's file system, open for reading and writing.
    package func temporaryFile() throws(UbiquityError) -> FileDescriptor {
        let path = Path.join(stagingDirectory, "temporary")
        return try describing("create a temporary file", at: path) { () throws(Errno) in
            let file = try FileDescriptor.open(path, [.readWrite, .create, .truncate])
            try FileSystem.unlink(path)
            return file
        }
    }

    /// Whether any process has a content open for writing, or mapped through such an open. A file system without leases
    /// cannot tell. It has no passthrough either, so only the daemon writes to contents there.
    package func hasWriters(_ id: ContentID) throws(UbiquityError) -> Bool {
        let file = try open(id, writable: false)
        do throws(Errno) { return try file.hasWriters() } catch { return false }
    }

    /// The size of the store's file system, in bytes.
    package func diskBytes() throws(UbiquityError) -> Int64 {
        try describing("query the size of the disk", at: stagingDirectory) { () throws(Errno) in
            let status = try FileSystem.fileSystemStatus(stagingDirectory)
            return status.blocks.multipliedReportingOverflow(by: status.blockSize).partialValue
        }
    }

    /// Bytes that this user can still write on the store's file system.
    package func availableBytes() throws(UbiquityError) -> Int64 {
        try describing("query the free space", at: stagingDirectory) { () throws(Errno) in
            try FileSystem.fileSystemStatus(stagingDirectory).availableBytes
        }
    }
}
