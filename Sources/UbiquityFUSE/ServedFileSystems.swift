internal import UbiquitySystem
internal import UbiquityVFS

/// The file systems that a session serves, one after the other: the present one, and the open files of those before.
///
/// Lock order: a leaf.
final class ServedFileSystems: Sendable {
    private struct State {
        var current: ClaimedFileSystem
        /// By the generation of their numbers.
        var departed: [UInt64: DepartedFiles] = [:]
    }
    private let state: Lock<State>

    init(_ first: ClaimedFileSystem) { state = Lock(State(current: first)) }

    var current: ClaimedFileSystem { state.withLock { $0.current } }

    /// The open files of the former container that has the kernel's number, and the inode in it.
    func departed(_ node: UInt64) -> (DepartedFiles, ino: UInt64)? {
        let (generation, ino) = NodeNumbers.split(node)
        return state.withLock { $0.departed[generation] }.map { ($0, ino) }
    }

    /// The attributes of an inode, by the kernel's number.
    func attributes(of node: UInt64) throws -> NodeAttributes {
        let fileSystem = current
        if let ino = fileSystem.numbers.ino(node) { return try fileSystem.attributes(of: ino) }
        guard let (files, ino) = departed(node) else { throw Errno.ESTALE }
        return try files.attributes(of: ino)
    }

    /// From now on requests reach `next`.
    /// - Parameter files: the open files of the present container.
    func exchange(_ next: ClaimedFileSystem, leaving files: DepartedFiles) {
        state.withLock { state in
            state.departed = state.departed.filter { !$0.value.isEmpty }
            state.departed[state.current.numbers.generation] = files
            state.departed[next.numbers.generation] = nil
            state.current = next
        }
    }
}
