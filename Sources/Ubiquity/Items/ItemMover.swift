import UbiquityCore
import UbiquitySystem

/// Moves files and folders between file systems. The item appears whole under its new name, and only then leaves its
/// old place.
enum ItemMover {
    /// Bytes copied at a time.
    private static let bufferLength = 1 << 20
    /// Prefix of the temporary name during the copy; such names are not synced.
    private static let staging = ".goutputstream-"
    private static let ownPrefix = StatusAttribute.prefixBytes

    /// Moves an item. Files that change after they were copied, or enter a copied folder later, stay at the old place.
    ///
    /// - Throws: `.alreadyExists`; `.notFound`, also if the destination's folder is missing; `.busy` if the item
    ///   changed meanwhile; and errors of reading and writing.
    static func move(_ source: String, to destination: String) throws(UbiquityError) {
        do throws(Errno) {
            return try FileSystem.rename(source, to: destination, .noReplace)
        } catch where error != .EXDEV {
            throw UbiquityError(error, doing: "move the item", at: destination)
        } catch {}
        let isTaken = try describing("examine the destination", at: destination) { () throws(Errno) in
            try FileSystem.exists(destination)
        }
        guard !isTaken else { throw UbiquityError(.alreadyExists, "the name is taken", at: destination) }
        let folder = Path.parent(of: destination)
        var random = SystemRandomNumberGenerator()
        let staged = Path.join(folder, staging + String(random.next() as UInt64, radix: 36))
        let copied: [Copied]
        do throws(UbiquityError) {
            copied = try copy(source, to: staged, depth: 0)
            try describing("move the item", at: destination) { () throws(Errno) in
                try FileSystem.rename(staged, to: destination, .noReplace)
                try FileSystem.syncDirectory(folder)
            }
        } catch {
            // The error above is thrown. A temporary item that stays has a name that is not synced.
            try? FileSystem.removeTree(staged)
            throw error
        }
        var left: UbiquityError?
        for item in copied {
            do throws(UbiquityError) {
                try describing("remove the item from its old place", at: item.path) { () throws(Errno) in
                    try remove(item)
                }
            } catch {
                left = left ?? error
            }
        }
        if let left { throw left }
    }

    /// The copied items; each follows the items in it.
    private struct Copied {
        var path: String
        var status: FileStatus
    }

    /// Removes a copied item, unless it has changed or received new items since the copy.
    private static func remove(_ item: Copied) throws(Errno) {
        do throws(Errno) {
            if item.status.isDirectory { return try FileSystem.removeDirectory(item.path) }
            guard try FileSystem.status(item.path).isSame(as: item.status) else { throw .EBUSY }
            try FileSystem.unlink(item.path)
        } catch {
            switch error {
            // Another program has removed it.
            case .ENOENT: return
            case .ENOTEMPTY: throw .EBUSY
            default: throw error
            }
        }
    }

    private static func copy(_ source: String, to target: String, depth: Int) throws(UbiquityError) -> [Copied] {
        guard depth < Limits.maximumDepth else {
            throw UbiquityError(
                .tooLarge, "folders are nested more than \(Limits.maximumDepth) levels deep", at: source)
        }
        let status = try describing("examine the item", at: source) { () throws(Errno) in
            try FileSystem.status(source)
        }
        var copied = [Copied]()
        switch status.kind {
        case .file:
            try copyFile(source, to: target, status)
        case .symlink:
            try describing("copy the link", at: source) { () throws(Errno) in
                try FileSystem.symlink(FileSystem.readLink(source), at: target)
            }
        case .directory:
            let entries = try describing("copy the folder", at: source) { () throws(Errno) in
                try FileSystem.makeDirectory(target, mode: 0o700)
                return try FileSystem.entries(of: source)
            }
            for entry in entries {
                let (from, to) = (Path.join(source, entry.text), Path.join(target, entry.text))
                copied += try copy(from, to: to, depth: depth + 1)
            }
            try describing("copy the folder", at: source) { () throws(Errno) in
                try copyXattrs(source, to: target)
                try FileSystem.setPermissions(target, status.permissions)
                try FileSystem.setTimes(target, accessed: nil, modified: status.modifiedAt)
                try FileSystem.syncDirectory(target)
            }
        default:
            throw UbiquityError(.notSupported, "only files, folders and symlinks can be moved", at: source)
        }
        return copied + [Copied(path: source, status: status)]
    }

    private static func copyFile(_ source: String, to target: String, _ status: FileStatus) throws(UbiquityError) {
        let isSame = try describing("copy the file", at: source) { () throws(Errno) in
            let input = try FileDescriptor.open(source, .readOnly)
            let output = try FileDescriptor.open(target, [.writeOnly, .create, .exclusive])
            while true {
                let part = try input.readSome(count: bufferLength)
                if part.isEmpty { break }
                try output.write(part)
            }
            try copyXattrs(source, to: target)
            try output.setPermissions(status.permissions)
            try output.setTimes(accessed: nil, modified: status.modifiedAt)
            try output.sync()
            let now = try input.status()
            return now.size == status.size && now.modifiedAt == status.modifiedAt
        }
        guard isSame else { throw UbiquityError(.busy, "the item changed while it was being moved", at: source) }
    }

    /// Copies the attributes set by programs, and the package mark. Attributes that this system computes are not
    /// copied.
    private static func copyXattrs(_ source: String, to target: String) throws(Errno) {
        for name in try FileSystem.xattrNames(source) where name.starts(with: Array("user.".utf8)) {
            guard !name.starts(with: ownPrefix) || name == PackageRules.mark else { continue }
            guard let value = try FileSystem.xattr(source, name) else { continue }
            // The target's file system does not support attributes.
            do throws(Errno) { try FileSystem.setXattr(target, name, value) } catch .EOPNOTSUPP { return }
        }
    }
}

extension FileStatus {
    /// Returns whether the file is unchanged. The change time of a file with several links is ignored: removing another
    /// link changes it.
    fileprivate func isSame(as other: FileStatus) -> Bool {
        kind == other.kind && inode == other.inode && size == other.size && modifiedAt == other.modifiedAt
            && permissions == other.permissions && (other.links > 1 || changedAt == other.changedAt)
    }
}
