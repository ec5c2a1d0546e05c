internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Chooses who serves an open file: this process, or the kernel directly (passthrough).
///
/// This process does not see reads and writes that the kernel serves. Writes change the backing file's times; so do
/// stores through a mapping, if the page was clean before. A mapping keeps neither handle nor inode open, because the
/// kernel maps the backing file itself. A program may go on storing long after its last handle is released. So a file
/// that may be mapped stays recorded as being written until no process has the backing file open for writing. A lease
/// tells that.
///
/// It holds the idle contents (`IdleContents`). `OpenFiles` calls it for each handle, `KernelNews` when a content is
/// replaced. It calls the passthrough and the kernel's cache.
final class FileService: Room {
    let context: FileSystemContext
    let idle = IdleContents()

    init(_ context: FileSystemContext) {
        self.context = context
    }

    /// Counts a handle, and serves it as the other handles of its inode are served.
    /// - Parameter openFiles: the number of open handles.
    /// - Returns: the backing number that the kernel uses to serve it; nil if this process serves it.
    func begin(_ node: OpenNode, _ flags: OpenFlags, isNew: Bool, openFiles: Int) -> BackingID? {
        // The next reader may be the only one, so count reads anew.
        if flags.writes { inodes.withNode(node.ino) { $0.looks = Rereading.Looks() } }
        let keepsReader = openFiles < context.parts.filesWithTwoDescriptors
        let (backing, mapsNow) = node.state.withLock { state in
            state.handles += 1
            let backing = chooseService(of: node, flags, &state)
            // The kernel has a descriptor of its own.
            if !keepsReader, state.whole?.isWritable == true { state.whole?.reader = nil }
            let mapsNow = backing != nil && flags.maps && !state.mayBeMapped
            if mapsNow { state.mayBeMapped = true }
            return (backing, mapsNow)
        }
        // From now on the file's times change without the kernel's notice, so drop the times it has cached.
        if mapsNow, !isNew { kernel.invalidateAttributes(ino: node.ino) }
        return backing
    }

    private func chooseService(
        of node: OpenNode, _ flags: OpenFlags, _ state: inout OpenNode.State
    ) -> BackingID? {
        guard case .undecided = state.service else { return state.service.backing }
        state.service = .daemon
        let idle = idle.remove(node.ino)
        let registered = state.registered
        state.registered = nil
        // A write clears the file's set-user-id and set-group-id bits. Writes that the kernel serves would leave them.
        guard context.parts.passthrough.isActive, !state.hasPrivileges, var whole = state.whole,
            !isReread(node.ino, flags, state)
        else {
            letGo(of: idle)
            if let registered { context.parts.passthrough.unregister(registered) }
            return nil
        }
        if let registered {
            letGo(of: idle)
            state.service = .kernel(registered, whole.id)
            return registered
        }
        if let idle, idle.id == whole.id, let id = idle.backing {
            state.service = .kernel(id, whole.id)
            return id
        }
        letGo(of: idle)
        do throws(Errno) {
            let reader = try whole.readerOnly()
            state.whole = whole
            guard let id = context.parts.passthrough.register(reader) else { return nil }
            state.service = .kernel(id, whole.id)
            return id
        } catch {
            logger.debug("served without passthrough", metadata: ["error": "\(error)"])
            return nil
        }
    }

    /// Whether it is a small file that programs read and stat again and again (`Rereading`).
    private func isReread(_ ino: UInt64, _ flags: OpenFlags, _ state: OpenNode.State) -> Bool {
        guard !flags.writes, inodes.withNode(ino, { $0.looks.areMany }) ?? false, state.writers == 0,
            !state.mayBeMapped, !state.isAdopted, let size = try? state.whole?.file.status().size
        else { return false }
        return size <= Rereading.largest
    }

    /// Releases a handle. After the last one, the next handle chooses the service anew.
    func end(_ node: OpenNode, _ state: inout OpenNode.State) {
        state.handles -= 1
        guard state.handles == 0 else { return }
        let content = idleContent(state)
        let backing = state.service.backing
        state.service = .undecided
        guard let content else {
            if let backing { context.parts.passthrough.unregister(backing) }
            return
        }
        letGo(of: idle.put(node.ino, content, now: context.parts.timekeeper.now()))
        // The content may have been replaced or removed before it was put there.
        if (try? index.row(ino: node.ino))?.content != content.id { letGo(of: idle.remove(node.ino)) }
    }

    /// The content kept of a file that is open no more; nil if a program may still write to it.
    private func idleContent(_ state: OpenNode.State) -> IdleContents.Content? {
        guard let whole = state.whole, !state.mayBeMapped, !state.isRecorded,
            let file = whole.isWritable ? whole.reader : whole.file
        else { return nil }
        if case .kernel(_, let served) = state.service, served != whole.id { return nil }
        return IdleContents.Content(file: file, id: whole.id, backing: state.service.backing)
    }

    /// Drops the idle content of an item whose content is replaced or about to be removed.
    func forgetIdle(_ ino: UInt64) { letGo(of: idle.remove(ino)) }

    func letGo(of contents: some Sequence<IdleContents.Content>) {
        for content in contents { letGo(of: content) }
    }

    /// Unregisters the content; its descriptor closes with it.
    private func letGo(of content: IdleContents.Content?) {
        if let backing = content?.backing { context.parts.passthrough.unregister(backing) }
    }
}
