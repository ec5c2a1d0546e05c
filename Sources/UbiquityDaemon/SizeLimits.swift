import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Refuses size limits of a mount that the disk of its state folder cannot satisfy.
package struct SizeLimits: Hashable, Sendable {
    /// Smallest cache limit in bytes: a few chunks.
    static let minimumCacheLimit: Int64 = 1 << 20

    /// Size of the whole disk in bytes.
    let diskSize: Int64

    /// - Parameter folder: the state folder. It need not exist yet.
    package init(stateFolder folder: String) throws(UbiquityError) {
        var place = folder
        while true {
            do throws(Errno) {
                diskSize = try FileSystem.fileSystemStatus(place).totalBytes
                return
            } catch {
                guard error == .ENOENT, place != "/" else {
                    throw UbiquityError(error, doing: "query the size of the disk", at: place)
                }
                place = Path.parent(of: place)
            }
        }
    }

    init(diskSize: Int64) { self.diskSize = diskSize }

    /// Throws `.invalid` with the allowed range. Nil means not given.
    package func require(cacheLimit: Int64?, diskFloor: Int64?) throws(UbiquityError) {
        if let cacheLimit, cacheLimit < Self.minimumCacheLimit || cacheLimit > diskSize {
            throw refusal("--cache-limit", cacheLimit, "at least \(ByteSize.text(Self.minimumCacheLimit)) and at most")
        }
        if let diskFloor, diskFloor < 0 || diskFloor >= diskSize {
            throw refusal("--disk-floor", diskFloor, "0 or more and less than")
        }
    }

    private func refusal(_ option: String, _ given: Int64, _ range: String) -> UbiquityError {
        UbiquityError(
            .invalid, "\(option) \(ByteSize.text(given)) is not possible",
            remedy: "use a size of \(range) \(ByteSize.text(diskSize)), the size of the disk with the state folder")
    }
}
