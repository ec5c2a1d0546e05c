internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Reads and writes open files.
///
/// It has no state of its own. The façade calls it. It calls `OpenFiles`, `BackingFiles` for a writer that waited for
/// the content, `ContentSync` for synchronous writes, and the `Materializer` for bytes that are not on this device.
final class FileIO: Room {
    let context: FileSystemContext
    private let openFiles: OpenFiles
    private let backing: BackingFiles
    private let contentSync: ContentSync
    private let arriving: ArrivingContents
    private let waitingCalls: WaitingCalls

    init(
        _ context: FileSystemContext, openFiles: OpenFiles, backing: BackingFiles, contentSync: ContentSync,
        arriving: ArrivingContents, waitingCalls: WaitingCalls
    ) {
        self.context = context
        self.openFiles = openFiles
        self.backing = backing
        self.contentSync = contentSync
        self.arriving = arriving
        self.waitingCalls = waitingCalls
    }

    /// Reads. Answers at once with bytes on this device; for others the answer waits. O_NONBLOCK has no effect, as on a
    /// disk: programs take EAGAIN from a regular file for a failure.
    func read(_ handle: UInt64, offset: Int64, length: Int) throws -> Answer<FileData> {
        let file = try openFiles.object(handle)
        if let whole = file.node.state.withLock({ $0.whole?.file }) {
            return .now(FileData(descriptor: whole, offset: offset, length: length))
        }
        if file.late != nil {
            return try awaitWritable(handle).map { [self] in
                FileData(descriptor: try writable(file).file, offset: offset, length: length)
            }
        }
        switch file.partial {
        case .content(let content): return read(content, offset: offset, length: length)
        case .pending(let beginning):
            return .later { [self] in
                let content = try await beginning.value
                return try await read(content, offset: offset, length: length).value
            }
        case nil: throw file.flags.contains(.refused) ? Errno.EDEADLK : Errno.EBADF
        }
    }

    private static func range(of content: PartialContent, _ offset: Int64, _ length: Int) -> Range<Int64> {
        let end = min(offset &+ Int64(length), content.size)
        return min(offset, end)..<end
    }

    private func read(_ content: PartialContent, offset: Int64, length: Int) -> Answer<FileData> {
        let range = Self.range(of: content, offset, length)
        let data = FileData(descriptor: content.file, offset: offset, length: range.count)
        if range.isEmpty || content.contains(range) { return .now(data) }
        let materializer = context.parts.materializer
        return .later {
            try await materializer.fill(content, range)
            return data
        }
    }

    /// Writes all bytes to the backing file.
    /// - Parameter isSynced: whether the bytes must be on disk before the answer, as by `sync`.
    func write(
        _ handle: UInt64, offset: Int64, _ bytes: UnsafeRawBufferPointer, isSynced: Bool = false, caller: Caller
    ) throws -> Int {
        let file = try openFiles.object(handle)
        guard offset >= 0, offset <= Limits.maximumFileSize - Int64(bytes.count) else { throw Errno.EFBIG }
        let whole = try written(file, by: caller)
        do {
            // Mark the file again after the write: a record made in between must not hide it.
            defer { file.node.state.withLock { $0.isTouched = true } }
            try whole.write(bytes, at: offset)
        }
        if isSynced { try contentSync.sync(handle) }
        return bytes.count
    }

    // MARK: Ranges

    /// fallocate(2), as far as the underlying file system supports it. Ranges of a placeholder need its content; an
    /// open for writing has waited for that.
    func allocate(_ handle: UInt64, mode: Int32, offset: Int64, length: Int64, caller: Caller) throws {
        let file = try openFiles.object(handle)
        guard file.flags.writes else { throw Errno.EBADF }
        guard offset >= 0, length > 0 else { throw Errno.EINVAL }
        guard offset <= Limits.maximumFileSize - length else { throw Errno.EFBIG }
        let mode = FileDescriptor.AllocationMode(rawValue: mode)
        // Collapsing and inserting move the bytes that follow, and the kernel's cached pages would not move with them.
        guard mode.isDisjoint(with: [.collapse, .insert]) else { throw Errno.EOPNOTSUPP }
        let whole = try written(file, by: caller)
        if !mode.contains(.keepSize) { try requireAccountSpace(for: file.node.ino, whole, until: offset + length) }
        defer { file.node.state.withLock { $0.isTouched = true } }
        do { try whole.allocate(mode, offset..<offset + length) } catch {
            forgetSize(of: file.node)
            throw error
        }
    }

    /// Throws EDQUOT if the file would grow by more than `df` shows as free in the account. A program that reserves
    /// space needs to know before it writes, because the cloud would refuse the content.
    private func requireAccountSpace(for ino: UInt64, _ file: FileDescriptor, until end: Int64) throws {
        guard let space = context.parts.transfers.space, try index.row(ino: ino)?.isExcluded == false else { return }
        let growth = try end - file.status().size
        guard growth <= 0 || growth <= max(0, space.quotaBytes) - max(0, space.usedBytes) else { throw Errno.EDQUOT }
    }

    /// copy_file_range(2): the underlying file system shares the blocks where it can. Throws EXDEV if bytes are missing
    /// on this device. The kernel then copies them itself, and waits for each without the target's lock. Until this
    /// call is answered it holds that lock, and a program that removes the target would wait for it with the folder
    /// locked.
    func copyRange(
        from source: UInt64, at sourceOffset: Int64, to target: UInt64, at offset: Int64, length: Int64, caller: Caller
    ) throws -> Int64 {
        let target = try openFiles.object(target)
        guard target.flags.writes else { throw Errno.EBADF }
        guard offset >= 0, sourceOffset >= 0, length >= 0 else { throw Errno.EINVAL }
        // The answer has 32 bits; a program continues with the rest.
        let length = min(length, Self.maximumCopy)
        guard offset <= Limits.maximumFileSize - length else { throw Errno.EFBIG }
        let file = try written(target, by: caller)
        guard case .now(let data) = try read(source, offset: sourceOffset, length: Int(length)) else {
            throw Errno.EXDEV
        }
        defer { target.node.state.withLock { $0.isTouched = true } }
        do {
            return try file.copyWhatFits(from: data.descriptor, at: data.offset, to: offset, count: Int64(data.length))
        } catch {
            forgetSize(of: target.node)
            throw error
        }
    }

    /// Makes the kernel ask for the size again. A failed call may have made the file longer, and the kernel takes it
    /// for unchanged.
    private func forgetSize(of node: OpenNode) { kernel.invalidateAttributes(ino: node.ino) }

    /// Bytes in one answer to copy_file_range. Without help from the file system such a copy takes about a second.
    private static let maximumCopy: Int64 = 1 << 30

    /// lseek(2) to data or a hole. A placeholder is all data: programs that skip holes must not skip bytes that are not
    /// downloaded.
    func seek(_ handle: UInt64, offset: Int64, whence: Int32) throws -> Int64 {
        let file = try openFiles.object(handle)
        let whole = file.node.state.withLock { $0.whole?.file }
        let size: Int64
        if case .content(let content) = file.partial, whole == nil {
            size = content.size
        } else {
            size = try whole?.status().size ?? context.row(file.node.ino).row.size
        }
        guard offset >= 0, offset < size else { throw Errno.ENXIO }
        switch (Whence(rawValue: whence), whole) {
        case (.data?, nil): return offset
        case (.hole?, nil): return size
        case (.data?, let whole?):
            guard let position = try whole.nextData(from: offset) else { throw Errno.ENXIO }
            return position
        case (.hole?, let whole?): return try whole.nextHole(from: offset) ?? size
        case (nil, _): throw Errno.EINVAL
        }
    }

    /// SEEK_DATA and SEEK_HOLE; the kernel does the others by itself.
    private enum Whence: Int32 {
        case data = 3
        case hole = 4
    }

    // MARK: Late writers

    /// The descriptor for a write. Clears the privileges that a write must clear.
    /// - Throws: as `writable`.
    func written(_ file: OpenFile, by caller: Caller) throws -> FileDescriptor {
        let (whole, hasPrivileges) = try writable(file)
        if hasPrivileges, let row = try index.row(ino: file.node.ino) { try context.clearPrivileges(row, caller) }
        return whole
    }

    /// The file the handle writes to, and whether a write clears privileges of the file.
    /// - Throws: `EAGAIN` if the content is missing: the caller must wait for `awaitWritable` first.
    func writable(_ file: OpenFile) throws -> (file: FileDescriptor, hasPrivileges: Bool) {
        guard file.flags.writes else { throw Errno.EBADF }
        guard try isWriter(file) else { throw Errno.EAGAIN }
        let (whole, hasPrivileges) = file.node.state.withLock { ($0.whole?.file, $0.hasPrivileges) }
        guard let whole else { throw Errno.EIO }
        return (whole, hasPrivileges)
    }

    /// Waits until the handle can write; returns at once if the content is complete. O_NONBLOCK affects only the open
    /// of a regular file.
    func awaitWritable(_ handle: UInt64) throws -> Answer<Void> {
        let file = try openFiles.object(handle)
        guard try file.flags.writes && !isWriter(file) else { return .now(()) }
        let waiting: Answer<Void> = .later { [self] in
            for _ in 0..<Self.writingAttempts {
                try await arriving.materialize(file.node.ino)
                if try isWriter(file) { return }
            }
            throw Errno.ESTALE
        }
        return waitingCalls.watching(waiting, file.node.ino)
    }

    /// Attempts of a write when the content is evicted after its download.
    private static let writingAttempts = 16

    /// Writes once the content is complete.
    func writeWhenWritable(
        _ handle: UInt64, offset: Int64, _ bytes: UnsafeRawBufferPointer, isSynced: Bool, caller: Caller
    ) throws -> Answer<Int> {
        switch try awaitWritable(handle) {
        case .now: return .now(try write(handle, offset: offset, bytes, isSynced: isSynced, caller: caller))
        case .later(let wait):
            // The kernel's buffer is invalid by the time the content arrives.
            let copy = [UInt8](bytes)
            return .later { [self] in
                try await wait()
                return try copy.withUnsafeBytes {
                    try write(handle, offset: offset, $0, isSynced: isSynced, caller: caller)
                }
            }
        }
    }

    /// Makes the handle a writer if the content is complete.
    private func isWriter(_ file: OpenFile) throws -> Bool {
        guard let late = file.late else { return true }
        return try late.state.withLock { state in
            switch state {
            case .writing: return true
            case .closed: throw Errno.EBADF
            case .waiting:
                guard try backing.attach(file.node, writes: true) else { return false }
                state = .writing
                return true
            }
        }
    }
}
