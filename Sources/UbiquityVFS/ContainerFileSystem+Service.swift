internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Who serves an open file: this process, or the kernel past it.
//
// What the kernel serves, this process does not see. Writes show in the backing file's times, stores through a mapping
// too, if the page was clean before. And a mapping keeps neither handle nor inode open: the kernel maps the backing
// file itself, so that a program may go on storing when its last handle is long released. So a file that may be mapped
// stays recorded as written to until nobody has the backing file open for writing any more, which a lease tells.
extension ContainerFileSystem {
    /// Counts a handle, and decides how it is served: as the others of its inode are.
    /// - Returns: what the kernel is to serve it from; nil if this process does.
    func beginService(of node: OpenNode, _ flags: OpenFlags, isNew: Bool) -> BackingID? {
        // Who reads it next may be the only one who does.
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
        // Its times change without the kernel's notice from now on: what it knows of them must not be believed.
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
        // A write takes away the rights of the file itself. Those that the kernel serves would not.
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

    /// Whether it is a small file that programs read and look at again and again (`Rereading`).
    private func isReread(_ ino: UInt64, _ flags: OpenFlags, _ state: OpenNode.State) -> Bool {
        guard !flags.writes, inodes.withNode(ino, { $0.looks.areMany }) ?? false, state.writers == 0,
            !state.mayBeMapped, !state.isAdopted, let size = try? state.whole?.file.status().size
        else { return false }
        return size <= Rereading.largest
    }

    /// A handle is released. With the last one the choice is open again.
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
        // It may have been replaced or removed a moment ago, and the news have come before it was put there.
        if (try? index.row(ino: node.ino))?.content != content.id { letGo(of: idle.take(node.ino)) }
    }

    /// What is kept of a file that nobody has open any more; nil if somebody may still write to it.
    private func idleContent(_ state: OpenNode.State) -> IdleContents.Content? {
        guard let whole = state.whole, !state.mayBeMapped, !state.isRecorded,
            let file = whole.isWritable ? whole.reader : whole.file
        else { return nil }
        if case .kernel(_, let served) = state.service, served != whole.id { return nil }
        return IdleContents.Content(file: file, id: whole.id, backing: state.service.backing)
    }

    /// The item's content is another one, or is to go.
    func forgetIdle(_ ino: UInt64) { letGo(of: idle.take(ino)) }

    func letGo(of contents: some Sequence<IdleContents.Content>) {
        for content in contents { letGo(of: content) }
    }

    /// Its descriptor is closed with it.
    private func letGo(of content: IdleContents.Content?) {
        if let backing = content?.backing { parts.passthrough.unregister(backing) }
    }

    // MARK: The end of writing

    /// The last writer's handle is gone.
    /// - Returns: false if somebody may still write through a mapping.
    func endWriting(_ node: OpenNode, _ state: inout OpenNode.State) -> Bool {
        if state.isRecorded, mayStillBeMapped(node, &state) { return false }
        noteLastClose(node, &state)
        return true
    }

    /// Whether somebody may write through a mapping now that no writer has a handle.
    func mayStillBeMapped(_ node: OpenNode, _ state: inout OpenNode.State) -> Bool {
        if state.mayBeMapped { state.mayBeMapped = isMapped(node, &state) }
        return state.mayBeMapped
    }

    private func isMapped(_ node: OpenNode, _ state: inout OpenNode.State) -> Bool {
        do throws(Errno) {
            try state.whole?.becomeReader()
            return try state.whole?.file.hasWriters() ?? false
        } catch {
            // Not to be known now: it counts as mapped until it is.
            logger.warning(
                "cannot tell whether a file is still mapped", metadata: ["inode": "\(node.ino)", "error": "\(error)"])
            return true
        }
    }

    /// Looks at the mapped files again and again until nobody can write to any.
    func watchMapped() {
        guard mapped.beginWatch() else { return }
        let timekeeper = parts.timekeeper
        Task.detached { [weak self] in
            var pause = MappedFiles.firstPause
            while let self, !self.mapped.endIfEmpty() {
                // Only a cancelled task is woken early, and nobody cancels this one.
                try? await timekeeper.sleep(for: pause)
                self.reviewMapped()
                pause = min(pause * 2, MappedFiles.longestPause)
            }
        }
    }

    private func reviewMapped() {
        for node in mapped.all {
            // Opened again for writing, or gone from the index: then the last close, or nobody, has to look at it.
            let isDone = node.state.withLock { state in
                (state.writers > 0 || !state.isRecorded || endWriting(node, &state)) && mapped.remove(node)
            }
            if isDone { openNodes.release(node) }
        }
    }

    /// Files that were open for writing when the last process died, and that somebody still writes to: through handles
    /// or mappings of the mount that is dead. To be called once, before anybody else opens anything.
    package func adoptWriters() throws {
        for row in try index.interruptedWriters() {
            guard let content = row.content, row.contentState == .complete, !row.isDeleted else { continue }
            let node = openNodes.hold(row.ino)
            try node.state.withLock { state in
                try open(content, of: row, writable: false, &state)
                state.isRecorded = true
                state.mayBeMapped = true
                state.isAdopted = true
                // The index was told of what stood there when this began, and a page that is being stored to since
                // before that changes no time till it is written back.
                state.isTouched = true
                state.stamp = try state.whole.map { OpenNode.Stamp(try $0.file.status()) }
                try state.whole?.file.startWriteback()
                _ = mapped.add(node)
            }
        }
        watchMapped()
    }
}

/// Files that have no writer's handle any more and may yet be written to. Each is held in the table of open nodes.
///
/// Changed with the node's state locked, so that a node is here if it is recorded as written to and has no writer.
/// Lock order: a leaf.
final class MappedFiles: Sendable {
    private struct State {
        var nodes: [UInt64: OpenNode] = [:]
        var isWatched = false
    }
    private let state = Lock(State())

    /// When a program has only just closed it, the kernel takes some microseconds to let go of the backing file.
    static let firstPause: Duration = .milliseconds(5)
    static let longestPause: Duration = .seconds(2)

    /// - Returns: false if it is here already.
    func add(_ node: OpenNode) -> Bool { state.withLock { $0.nodes.updateValue(node, forKey: node.ino) == nil } }

    /// - Returns: false if somebody watches, or there is nothing to watch.
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

    /// Whether there is nothing to watch any more; then the watch is over.
    func endIfEmpty() -> Bool {
        state.withLock { state in
            if state.nodes.isEmpty { state.isWatched = false }
            return state.nodes.isEmpty
        }
    }
}
