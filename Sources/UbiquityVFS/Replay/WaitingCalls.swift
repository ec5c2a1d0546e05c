/// Files that a call waits for with their inode locked in the kernel: a truncation, or a copy within the mount, that
/// waits for a download.
///
/// Lock order: a leaf.
final class WaitingCalls: Sendable {
    private let files = WaitCounter<UInt64>()

    func contains(_ ino: UInt64) -> Bool { files.contains(ino) }

    /// The same answer; while it is waited for, the file counts.
    func watching<Value>(_ answer: Answer<Value>, _ ino: UInt64) -> Answer<Value> {
        guard case .later(let work) = answer else { return answer }
        files.enter(ino)
        return .later { [files] in
            defer { files.leave(ino) }
            return try await work()
        }
    }
}
