package import UbiquityCore
internal import UbiquitySystem

/// What the contents take on the disk.
package struct StoreUsage: Hashable, Sendable {
    package var files = 0
    /// Bytes that are allocated, which for a partial content are less than its size.
    package var bytes: Int64 = 0
}

extension ContentStore {
    /// Asks every file: about 2 µs each.
    package func usage() throws(UbiquityError) -> StoreUsage {
        var usage = StoreUsage()
        for id in try all() {
            guard let status = try status(of: id) else { continue }
            usage.files += 1
            usage.bytes += status.blocks * 512
        }
        return usage
    }

    /// Bytes that this user can still write on the store's file system.
    package func availableBytes() throws(UbiquityError) -> Int64 {
        try describing("ask for the free space", at: stagingDirectory) { () throws(Errno) in
            try FileSystem.fileSystemStatus(stagingDirectory).availableBytes
        }
    }
}
