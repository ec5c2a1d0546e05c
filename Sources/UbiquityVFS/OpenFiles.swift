internal import UbiquityContent
internal import UbiquityCoordination
internal import UbiquityCore
internal import UbiquitySystem

/// The kernel's handles of open files.
///
/// It holds the table of handles. `FileOpening`, `WholeFiles` and `Truncation` add handles, `DelayedCloses` releases
/// them, `FileIO` looks them up. It calls `FileService`, `MappedFiles` and `LastUses`.
final class OpenFiles: Room {
    let context: FileSystemContext
    private let service: FileService
    let mapped: MappedFiles
    private let uses: LastUses
    private let files = HandleTable<OpenFile>()

    init(_ context: FileSystemContext, service: FileService, mapped: MappedFiles, uses: LastUses) {
        self.context = context
        self.service = service
        self.mapped = mapped
        self.uses = uses
    }

    /// - Parameter isNew: whether the kernel does not know the inode yet.
    func handle(
        on node: OpenNode, _ flags: OpenFlags, partial: PartialSource?, late: LateWriter? = nil, isNew: Bool = false
    ) -> OpenedFile {
        let backing = service.begin(node, flags, isNew: isNew, openFiles: files.count)
        let handle = files.add(OpenFile(node: node, flags: flags, partial: partial, late: late))
        if flags.contains(.refused) {
            // Keep the cache only where a program may wait for pages of the partial content. No program reads into
            // other pages.
            let keepsCache = inodes.withNode(node.ino) { $0.pages != nil } ?? false
            return OpenedFile(handle: handle, keepsCache: keepsCache, backing: backing, bypassesPages: true)
        }
        let content = backing == nil ? partial?.contentID ?? node.state.withLock { $0.whole?.id } : nil
        let keepsCache = inodes.withNode(node.ino) { known in
            defer { known.pages = content }
            return content != nil && known.pages == content
        }
        return OpenedFile(handle: handle, keepsCache: keepsCache ?? false, backing: backing)
    }

    /// The open file of a handle.
    func object(_ handle: UInt64) throws(Errno) -> OpenFile { try files.object(handle) }

    var count: Int { files.count }
    var all: [OpenFile] { files.all }
    var entries: [UInt64: OpenFile] { files.entries }

    /// Records the author of writes through the handle.
    func setAuthor(_ doer: Doer, _ handle: UInt64) {
        guard let file = try? files.object(handle), file.flags.writes else { return }
        file.node.state.withLock { state in
            let others = state.writers > 1 ? state.doer : nil
            state.doer = others?.joined(by: doer) ?? doer
        }
    }

    /// Releases a handle. After the last writer's release the index records the changes.
    func releaseNow(_ handle: UInt64) {
        guard let file = files.remove(handle) else { return }
        let isWriter = file.late.map { $0.close() } ?? file.flags.writes
        if uses.isUsedTill(file) { uses.record(file.node.ino) }
        let isHeld = file.node.state.withLock { state in
            defer { service.end(file.node, &state) }
            guard isWriter else { return false }
            state.writers -= 1
            return state.writers == 0 && !mapped.endWriting(file.node, &state) && mapped.add(file.node)
        }
        if isHeld { mapped.watch() } else { openNodes.release(file.node) }
        giveBack(file.partial)
    }

    private func giveBack(_ partial: PartialSource?) {
        let materializer = context.parts.materializer
        switch partial {
        case .content(let content): materializer.release(content)
        case .pending(let beginning):
            beginning.cancel()
            Task.detached {
                // If the download failed to begin, there is nothing to release.
                if let content = try? await beginning.value { materializer.release(content) }
            }
        case nil: break
        }
    }

    /// Whether a program may write to a file through a handle of its own.
    func hasWriter(_ ino: UInt64) -> Bool { files.all.contains { $0.flags.writes && $0.node.ino == ino } }

    /// Describes a broken invariant of open files while no operation is in progress; nil if all hold.
    func violation() -> String? {
        for node in openNodes.all {
            let handles = files.all.filter { $0.node === node }
            let writers = handles.filter { $0.late?.isWriting ?? $0.flags.writes }.count
            let (known, recorded, counted) = node.state.withLock { ($0.writers, $0.isRecorded, $0.handles) }
            if counted != handles.count { return "inode \(node.ino) counts \(counted) handles, not \(handles.count)" }
            if known != writers { return "inode \(node.ino) counts \(known) writers and has \(writers)" }
            if mapped.contains(node) { continue }
            if handles.isEmpty { return "inode \(node.ino) is open without a handle" }
            if recorded, writers == 0 { return "inode \(node.ino) is recorded as being written, without a writer" }
        }
        return openNodes.useCount == files.count + mapped.all.count ? nil : "open inodes and handles do not add up"
    }
}
