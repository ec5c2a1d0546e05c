internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Chooses who serves an open file: this process, or the kernel directly (passthrough).
//
// This process does not see reads and writes that the kernel serves. Writes change the backing file's times; so do
// stores through a mapping, if the page was clean before. A mapping keeps neither handle nor inode open, because the
// kernel maps the backing file itself. A program may go on storing long after its last handle is released. So a file
// that may be mapped stays recorded as being written until no process has the backing file open for writing. A lease
// tells that.
extension ContainerFileSystem {
    /// Counts a handle, and serves it as the other handles of its inode are served.
    /// - Returns: the backing number from which the kernel serves it; nil if this process serves it.
    func beginService(of node: OpenNode, _ flags: OpenFlags, isNew: Bool) -> BackingID? {
        // The next reader may be the only one, so count reads anew.
        if flags.writes { inodes.withNode(node.ino) { $0.looks = Rereading.Looks() } }
        let keepsReader = files.count < parts.filesWithTwoDescriptors
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
        let idle = idle.take(node.ino)
        let registered = state.registered
        state.registered = nil
        // A write clears the file's set-user-id and set-group-id bits. Writes that the kernel serves would leave them.
        guard parts.passthrough.isActive, !state.hasPrivileges, var whole = state.whole,
            !isReread(node.ino, flags, state)
        else {
            letGo(of: idle)
            if let registered { parts.passthrough.unregister(registered) }
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
            guard let id = parts.passthrough.register(reader) else { return nil }
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
    func endService(of node: OpenNode, _ state: inout OpenNode.State) {
        state.handles -= 1
        guard state.handles == 0 else { return }
        let content = idleContent(state)
        let backing = state.service.backing
        state.service = .undecided
        guard let content else {
            if let backing { parts.passthrough.unregister(backing) }
            return
        }
        letGo(of: idle.put(node.ino, content, now: parts.timekeeper.now()))
        // The content may have been replaced or removed before it was put there.
        if (try? index.row(ino: node.ino))?.content != content.id { letGo(of: idle.take(node.ino)) }
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
    func forgetIdle(_ ino: UInt64) { letGo(of: idle.take(ino)) }

    func letGo(of contents: some Sequence<IdleContents.Content>) {
        for content in contents { letGo(of: content) }
    }

    /// Unregisters the content; its descriptor closes with it.
    private func letGo(of content: IdleContents.Content?) {
        if let backing = content?.backing { parts.passthrough.unregister(backing) }
    }

    // MARK: The end of writing

    /// Records the end of writing after the last writer's handle is released.
    /// - Returns: false if a program may still write through a mapping.
    func endWriting(_ node: OpenNode, _ state: inout OpenNode.State) -> Bool {
        if state.isRecorded, mayStillBeMapped(node, &state) { return false }
        noteLastClose(node, &state)
        return true
    }

    /// Whether a program may write through a mapping when no writer has a handle.
    func mayStillBeMapped(_ node: OpenNode, _ state: inout OpenNode.State) -> Bool {
        if state.mayBeMapped { state.mayBeMapped = isMapped(node, &state) }
        return state.mayBeMapped
    }

    private func isMapped(_ node: OpenNode, _ state: inout OpenNode.State) -> Bool {
        do throws(Errno) {
            try state.whole?.becomeReader()
            return try state.whole?.file.hasWriters() ?? false
        } catch {
            // Unknown at present: treat the file as mapped until the lease tells.
            logger.warning(
                "cannot tell whether a file is still mapped", metadata: ["inode": "\(node.ino)", "error": "\(error)"])
            return true
        }
    }

    /// Checks the mapped files repeatedly until no program can write to any.
    func watchMapped() {
        guard mapped.beginWatch() else { return }
        let timekeeper = parts.timekeeper
        Task.detached { [weak self] in
            var pause = MappedFiles.firstPause
            while let self, !self.mapped.endIfEmpty() {
                // Only a cancelled task wakes early, and nothing cancels this one.
                try? await timekeeper.sleep(for: pause)
                self.reviewMapped()
                pause = min(pause * 2, MappedFiles.longestPause)
            }
        }
    }

    private func reviewMapped() {
        for node in mapped.all {
            // If the file is open for writing again, the last close checks it. If it left the index, no check is
            // needed.
            let isDone = node.state.withLock { state in
                (state.writers > 0 || !state.isRecorded || endWriting(node, &state)) && mapped.remove(node)
            }
            if isDone { openNodes.release(node) }
        }
    }

    /// Adopts files that were open for writing when the last process died and that programs still write to, through
    /// handles or mappings of the dead mount. Call once, before any file is opened.
    package func adoptWriters() throws {
        for row in try index.interruptedWriters() {
            guard let content = row.content, row.contentState == .complete, !row.isDeleted else { continue }
            let node = openNodes.hold(row.ino)
            try node.state.withLock { state in
                try open(content, of: row, writable: false, &state)
                state.isRecorded = true
                state.mayBeMapped = true
                state.isAdopted = true
                // The index has the state from before the process died. A page that a program has been storing to since
                // then changes no time until it is written back.
                state.isTouched = true
                state.stamp = try state.whole.map { OpenNode.Stamp(try $0.file.status()) }
                try state.whole?.file.startWriteback()
                _ = mapped.add(node)
            }
        }
        watchMapped()
    }
}

/// Files without a writer's handle that programs may still write to. Each is held in the table of open nodes.
///
/// Changed with the node's state locked. So a node is in here exactly if it is recorded as being written and has no
/// writer. Lock order: a leaf.
final class MappedFiles: Sendable {
    private struct State {
        var nodes: [UInt64: OpenNode] = [:]
        var isWatched = false
    }
    private let state = Lock(State())

    /// After a program's close the kernel takes some microseconds to release the backing file.
    static let firstPause: Duration = .milliseconds(5)
    static let longestPause: Duration = .seconds(2)

    /// - Returns: false if it is here already.
    func add(_ node: OpenNode) -> Bool { state.withLock { $0.nodes.updateValue(node, forKey: node.ino) == nil } }

    /// - Returns: false if a watch runs already, or no file needs one.
    func beginWatch() -> Bool {
        state.withLock { state in
            guard !state.isWatched, !state.nodes.isEmpty else { return false }
            state.isWatched = true
            return true
        }
    }

    /// - Returns: false if it is not here.
    func remove(_ node: OpenNode) -> Bool { state.withLock { $0.nodes.removeValue(forKey: node.ino) != nil } }
    func contains(_ node: OpenNode) -> Bool { state.withLock { $0.nodes[node.ino] != nil } }
    var all: [OpenNode] { state.withLock { Array($0.nodes.values) } }

    /// Ends the watch if no file is left.
    /// - Returns: whether the watch is over.
    func endIfEmpty() -> Bool {
        state.withLock { state in
            if state.nodes.isEmpty { state.isWatched = false }
            return state.nodes.isEmpty
        }
    }
}
