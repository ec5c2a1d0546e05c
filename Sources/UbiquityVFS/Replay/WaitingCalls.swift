/// Files that the kernel keeps locked while a call waits for a download: a truncation, or a copy within the mount.
///
/// Lock order: a leaf.
final class WaitingCalls: Sendable {
    private let files = WaitCounter<UInt64>()

    func contains(_ ino: UInt64) -> Bool { files.contains(ino) }

    /// The same answer; the file counts until the answer is complete.
    func watching<Value>(_ answer: Answer<Value>, _ ino: UInt64) -> Answer<Value> {
        guard case .later(let work) = answer else { return answer }
        files.enter(ino)
        return .later { [files] in
            defer { files.leave(ino) }
            return try await work()
        }
    }
}
