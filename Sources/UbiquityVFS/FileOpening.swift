internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Opens files of items: decides whether an open waits for a download, begins one, or is refused.
///
/// It has no state of its own. The façade calls it. It calls `WholeFiles`, `Truncation`, `OpenFiles` and
/// `ArrivingContents`.
final class FileOpening: Room {
    let context: FileSystemContext
    private let openFiles: OpenFiles
    private let wholeFiles: WholeFiles
    private let truncation: Truncation
    private let closes: DelayedCloses
    private let uses: LastUses
    private let arriving: ArrivingContents

    init(
        _ context: FileSystemContext, openFiles: OpenFiles, wholeFiles: WholeFiles, truncation: Truncation,
        closes: DelayedCloses, uses: LastUses, arriving: ArrivingContents
    ) {
        self.context = context
        self.openFiles = openFiles
        self.wholeFiles = wholeFiles
        self.truncation = truncation
        self.closes = closes
        self.uses = uses
        self.arriving = arriving
    }

    /// Opens a file. Opening for reading waits until a placeholder's download has begun; reading waits for its bytes.
    /// Opening for writing waits for the complete content, unless it truncates.
    func open(_ ino: UInt64, flags: OpenFlags, caller: Caller) throws -> Answer<OpenedFile> {
        var flags = flags
        let (row, isOrphan) = try context.row(ino)
        switch row.kind {
        case .directory: throw Errno.EISDIR
        case .symlink: throw Errno.ELOOP
        case .file: break
        case .hardLink: throw Errno.ESTALE
        // The kernel opens special files itself.
        case .fifo, .socket, .characterDevice, .blockDevice: throw Errno.ENXIO
        }
        if isOrphan { return .now(try wholeFiles.openOrphan(row, flags)) }
        if uses.isUse(row, caller) {
            uses.record(row.ino)
            flags.insert(.counted)
        }
        if flags.contains(.truncate) {
            closes.finish(of: ino)
            return .now(
                try flags.writes
                    ? truncation.openTruncating(row, flags, caller) : truncation.openTruncated(row, flags, caller))
        }
        if row.contentState == .complete, let opened = try wholeFiles.openWhole(ino, flags) { return .now(opened) }
        if row.size > 0, context.isSniffing(flags, caller) {
            guard let opened = try wholeFiles.openJustCome(row, flags) else { throw Errno.EDEADLK }
            return .now(opened)
        }
        // An empty content needs no download.
        if row.size > 0, context.parts.backgroundReaders.isOne(caller.pid) {
            if let opened = try wholeFiles.openJustCome(row, flags) { return .now(opened) }
            return .now(try openRefused(row, flags))
        }
        if flags.writes, flags.contains(.nonBlocking) { return .now(try openLate(ino, flags)) }
        return try flags.writes ? openWhenWhole(row, flags) : openPartly(row, flags)
    }

    // MARK: Content that is not here

    private func openWhenWhole(_ row: ItemRow, _ flags: OpenFlags) throws -> Answer<OpenedFile> {
        // Hold the node now, so that the downloaded content is not evicted before the open.
        let node = openNodes.hold(row.ino)
        return .later { [self] in
            defer { openNodes.release(node) }
            do {
                try await arriving.materialize(row.ino)
                guard let opened = try wholeFiles.openWhole(row.ino, flags) else { throw Errno.ESTALE }
                return opened
            } catch where error as? Errno == .ESTALE {
                try await arriving.bringSuccessor(of: row) { [arriving] in try await arriving.materialize($0.ino) }
                throw Errno.ESTALE
            }
        }
    }

    /// Opens a placeholder for a program whose reads are refused. Readers may look at the file without its bytes; a
    /// writer needs the content.
    private func openRefused(_ row: ItemRow, _ flags: OpenFlags) throws -> OpenedFile {
        guard !flags.writes else { throw Errno.EDEADLK }
        return openFiles.handle(on: openNodes.hold(row.ino), flags.union(.refused), partial: nil)
    }

    private func openPartly(_ row: ItemRow, _ flags: OpenFlags) throws -> Answer<OpenedFile> {
        if flags.contains(.nonBlocking), row.size > 0 {
            let beginning = PendingContent(row.content) { [arriving] in try await arriving.beginContent(of: row) }
            return .now(openFiles.handle(on: openNodes.hold(row.ino), flags, partial: .pending(beginning)))
        }
        // Hold the node now, so that the item is not evicted or taken for unused while the download begins.
        let node = openNodes.hold(row.ino)
        return .later { [self] in
            do {
                return openFiles.handle(on: node, flags, partial: .content(try await arriving.beginReading(row)))
            } catch {
                openNodes.release(node)
                // Between lookup and download the content may have arrived, or the item may be gone.
                if let row = try index.row(ino: row.ino), row.contentState == .complete,
                    let opened = try wholeFiles.openWhole(row.ino, flags)
                {
                    return opened
                }
                if error as? Errno == .ESTALE {
                    try await arriving.bringSuccessor(of: row) { [arriving] in try await arriving.bringForReading($0) }
                }
                throw error
            }
        }
    }

    private func openLate(_ ino: UInt64, _ flags: OpenFlags) throws -> OpenedFile {
        let opened = openFiles.handle(on: openNodes.hold(ino), flags, partial: nil, late: LateWriter())
        guard opened.backing != nil else { return opened }
        // The content arrived just now, and other handles read it directly through the kernel. Open it anew, so that
        // writes are recorded.
        openFiles.releaseNow(opened.handle)
        guard let whole = try wholeFiles.openWhole(ino, flags) else { throw Errno.ESTALE }
        return whole
    }
}
