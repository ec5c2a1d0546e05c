internal import UbiquityCore
internal import UbiquitySystem

/// Bytes of the files of a chunk store, in memory. They are counted once, when they are first asked for, and a clean
/// end leaves the sum for the next process.
final class StoredSize: Sendable {
    private struct State {
        /// Nil until it has been counted.
        var files: Int64?
        /// Bytes that writers are about to store.
        var held: Int64 = 0
    }

    /// Where a clean end leaves the sum.
    private let path: String
    private let state: Lock<State>

    /// Takes the sum that the last process left. It is removed at once: a process that is killed leaves none.
    init(folder: String) throws(UbiquityError) {
        path = Path.join(folder, "size")
        // A sum that cannot be read is none: the files are counted.
        let text = ((try? SmallFile.read(path, limit: 64)) ?? nil).map { String(decoding: $0, as: UTF8.self) }
        state = Lock(State(files: text.flatMap { Int64($0) }))
        guard text != nil else { return }
        try describing("remove the sum of the chunks", at: path) { () throws(Errno) in
            try FileSystem.unlink(path)
            try FileSystem.syncDirectory(folder)
        }
    }

    /// Bytes of the files and bytes that are held.
    /// - Parameter count: Counts the files. Changes wait until it is done.
    func total(counting count: () throws -> Int64) throws -> Int64 {
        try state.withLock { state in
            if let files = state.files { return files + state.held }
            let files = try count()
            state.files = files
            return files + state.held
        }
    }

    func hold(_ bytes: Int64) { state.withLock { $0.held += bytes } }
    func release(_ bytes: Int64) { state.withLock { $0.held -= bytes } }

    func add(_ change: Int64) { state.withLock { state in state.files = state.files.map { max(0, $0 + change) } } }

    /// Has the files counted again: nobody knows which of them are left.
    func forget() { state.withLock { $0.files = nil } }

    /// To be called when nothing is stored any more. Without it the next process counts.
    func keep() throws(UbiquityError) {
        guard let files = state.withLock({ $0.files }) else { return }
        try SmallFile.publish(Array("\(files)".utf8), at: path)
    }
}
