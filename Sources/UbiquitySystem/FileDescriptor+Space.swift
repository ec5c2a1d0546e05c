import CUbiquityShims
import Glibc

// Space, holes, cloning and locks.
extension FileDescriptor {
    /// How fallocate(2) changes a range.
    package struct AllocationMode: OptionSet, Hashable, Sendable {
        package let rawValue: Int32
        package init(rawValue: Int32) { self.rawValue = rawValue }

        package static let keepSize = AllocationMode(rawValue: CUbiquity_FALLOC_FL_KEEP_SIZE)
        package static let punchHole = AllocationMode(rawValue: CUbiquity_FALLOC_FL_PUNCH_HOLE)
        package static let collapse = AllocationMode(rawValue: CUbiquity_FALLOC_FL_COLLAPSE_RANGE)
        package static let zero = AllocationMode(rawValue: CUbiquity_FALLOC_FL_ZERO_RANGE)
        package static let insert = AllocationMode(rawValue: CUbiquity_FALLOC_FL_INSERT_RANGE)
    }

    package func allocate(_ mode: AllocationMode = [], _ range: Range<Int64>) throws(Errno) {
        _ = try retrying {
            CUbiquity_fallocate(rawValue, mode.rawValue, range.lowerBound, range.upperBound - range.lowerBound)
        }
    }

    /// Returns the start of the next data at or after `offset`; nil if there is none. Moves the file's position.
    package func nextData(from offset: Int64) throws(Errno) -> Int64? {
        try seek(to: offset, CUbiquity_SEEK_DATA)
    }

    /// Returns the start of the next hole at or after `offset`, at the latest the end of the file; nil if `offset` is
    /// beyond it. Moves the file's position.
    package func nextHole(from offset: Int64) throws(Errno) -> Int64? {
        try seek(to: offset, CUbiquity_SEEK_HOLE)
    }

    private func seek(to offset: Int64, _ kind: Int32) throws(Errno) -> Int64? {
        do throws(Errno) {
            return Int64(try check(lseek(rawValue, off_t(offset), kind)))
        } catch {
            if error == .ENXIO { return nil }
            throw error
        }
    }

    /// Returns the parts of `range` that hold data, in order. A file system without holes has one part.
    package func dataRanges(in range: Range<Int64>) throws(Errno) -> [Range<Int64>] {
        var found = [Range<Int64>]()
        var position = range.lowerBound
        while position < range.upperBound, let start = try nextData(from: position), start < range.upperBound {
            let end = min(try nextHole(from: start) ?? range.upperBound, range.upperBound)
            guard end > start else { break }
            found.append(start..<end)
            position = end
        }
        return found
    }

    /// Bytes moved at a time by a copy without help of the file system.
    private static let copyBufferSize = 256 * 1024

    /// Copies `count` bytes from `source`; fewer if it ends before. The file system shares or copies them itself where
    /// it can.
    ///
    /// - Returns: The number of bytes copied. Throws if the copy fails; some bytes may be copied then.
    package func copy(
        from source: FileDescriptor, at sourceOffset: Int64, to offset: Int64, count: Int64
    ) throws(Errno) -> Int64 {
        var done: Int64 = 0
        try copy(from: source, at: sourceOffset, to: offset, count: count, &done)
        return done
    }

    /// Copies like copy_file_range(2): a failure after some bytes, as on a full disk, shows only at the next call.
    package func copyWhatFits(
        from source: FileDescriptor, at sourceOffset: Int64, to offset: Int64, count: Int64
    ) throws(Errno) -> Int64 {
        var done: Int64 = 0
        do throws(Errno) { try copy(from: source, at: sourceOffset, to: offset, count: count, &done) } catch {
            guard done > 0 else { throw error }
        }
        return done
    }

    private func copy(
        from source: FileDescriptor, at sourceOffset: Int64, to offset: Int64, count: Int64, _ done: inout Int64
    ) throws(Errno) {
        while done < count {
            var from = sourceOffset + done
            var to = offset + done
            let length = Int(min(count - done, 1 << 30))
            do throws(Errno) {
                let moved = try retrying {
                    CUbiquity_copy_file_range(source.rawValue, &from, rawValue, &to, length)
                }
                if moved == 0 { return }
                done += Int64(moved)
            } catch {
                guard [.EXDEV, .EINVAL, .EOPNOTSUPP, .ENOSYS, .EPERM].contains(error) else { throw error }
                return try copyBytes(from: source, at: sourceOffset, to: offset, count: count, &done)
            }
        }
    }

    private func copyBytes(
        from source: FileDescriptor, at sourceOffset: Int64, to offset: Int64, count: Int64, _ done: inout Int64
    ) throws(Errno) {
        while done < count {
            let length = Int(min(count - done, Int64(Self.copyBufferSize)))
            let bytes = try source.read(count: length, at: sourceOffset + done)
            if bytes.isEmpty { return }
            try write(bytes, at: offset + done)
            done += Int64(bytes.count)
        }
    }

    /// Makes this file share the whole content of `source`. Throws EOPNOTSUPP, EINVAL or EXDEV where it cannot.
    package func clone(_ source: FileDescriptor) throws(Errno) {
        _ = try check(CUbiquity_clone(rawValue, source.rawValue))
    }

    /// Hints that subfolders of this folder should be spread over the disk. Throws where there is no such hint.
    package func spreadFolders() throws(Errno) { _ = try check(CUbiquity_spreadFolders(rawValue)) }

    package enum LockKind: Sendable { case shared, exclusive }

    /// Tries to lock the file. The lock lasts as long as the open file.
    ///
    /// - Returns: False if another process holds a conflicting lock.
    package func tryLock(_ kind: LockKind) throws(Errno) -> Bool {
        do throws(Errno) {
            _ = try retrying { CUbiquity_flock(rawValue, (kind == .shared ? LOCK_SH : LOCK_EX) | LOCK_NB) }
            return true
        } catch {
            if error == .EAGAIN { return false }
            throw error
        }
    }

    /// Locks the file and waits until it is free. Blocks the thread.
    package func lock(_ kind: LockKind) throws(Errno) {
        _ = try retrying { CUbiquity_flock(rawValue, kind == .shared ? LOCK_SH : LOCK_EX) }
    }

    package func unlock() throws(Errno) { _ = try retrying { CUbiquity_flock(rawValue, LOCK_UN) } }
}
