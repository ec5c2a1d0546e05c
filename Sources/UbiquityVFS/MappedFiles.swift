internal import Logging
internal import UbiquityCore
internal import UbiquitySystem

/// Files without a writer's handle that programs may still write to. Each is held in the table of open nodes.
///
/// Changed with the node's state locked. So a node is in here exactly if it is recorded as being written and has no
/// writer. Lock order: a leaf.
///
/// `OpenFiles` and `DelayedCloses` call it. It calls `WriteRecorder` at the end of writing.
final class MappedFiles: Room {
    private struct State {
        var nodes: [UInt64: OpenNode] = [:]
        var isWatched = false
        /// Whether the container has left its mount.
        var isOver = false
    }

    let context: FileSystemContext
    private let recorder: WriteRecorder
    private let state = Lock(State())

    init(_ context: FileSystemContext, recorder: WriteRecorder) {
        self.context = context
        self.recorder = recorder
    }

    /// After a program's close the kernel takes some microseconds to release the backing file.
    static let firstPause: Duration = .milliseconds(5)
    static let longestPause: Duration = .seconds(2)

    /// - Returns: false if it is here already.
    func add(_ node: OpenNode) -> Bool { state.withLock { $0.nodes.updateValue(node, forKey: node.ino) == nil } }

    /// - Returns: false if a watch runs already, or no file needs one.
    func beginWatch() -> Bool {
        state.withLock { state in
            guard !state.isWatched, !state.isOver, !state.nodes.isEmpty else { return false }
            state.isWatched = true
            return true
        }
    }

    /// - Returns: false if it is not here.
    func remove(_ node: OpenNode) -> Bool { state.withLock { $0.nodes.removeValue(forKey: node.ino) != nil } }
    func contains(_ node: OpenNode) -> Bool { state.withLock { $0.nodes[node.ino] != nil } }
    var all: [OpenNode] { state.withLock { Array($0.nodes.values) } }

    /// Ends the watch if no file is left, or the container has left its mount.
    /// - Returns: whether the watch is over.
    func endIfEmpty() -> Bool {
        state.withLock { state in
            let isOver = state.nodes.isEmpty || state.isOver
            if isOver { state.isWatched = false }
            return isOver
        }
    }

    /// The container leaves its mount. The index keeps that programs may write to the files, and the next start of the
    /// container adopts the writers.
    func end() { state.withLock { $0.isOver = true } }

    /// Records the end of writing after the last writer's handle is released.
    /// - Returns: false if a program may still write through a mapping.
    func endWriting(_ node: OpenNode, _ state: inout OpenNode.State) -> Bool {
        if state.isRecorded, mayStillBeMapped(node, &state) { return false }
        recorder.recordLastClose(node, &state)
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
    func watch() {
        guard beginWatch() else { return }
        let timekeeper = context.parts.timekeeper
        Task.detached { [weak self] in
            var pause = Self.firstPause
            while let self, !self.endIfEmpty() {
                // Only a cancelled task wakes early, and nothing cancels this one.
                try? await timekeeper.sleep(for: pause)
                if self.endIfEmpty() { return }
                self.review()
                pause = min(pause * 2, Self.longestPause)
            }
        }
    }

    private func review() {
        for node in all {
            // If the file is open for writing again, the last close checks it. If it left the index, no check is
            // needed.
            let isDone = node.state.withLock { state in
                (state.writers > 0 || !state.isRecorded || endWriting(node, &state)) && remove(node)
            }
            if isDone { openNodes.release(node) }
        }
    }
}
