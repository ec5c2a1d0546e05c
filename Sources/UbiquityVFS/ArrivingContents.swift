internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Downloads the contents that opens wait for. Meanwhile items may get other contents or be deleted.
struct ArrivingContents: Room {
    /// Attempts of a wait when the content is exchanged meanwhile.
    private static let attempts = 16

    let context: FileSystemContext
    let materializer: any Materializer
    let completions: CompletionWaiters
    /// Contents up to this size, in bytes, are downloaded completely before they are read.
    let smallContent: Int64

    /// Waits until the complete content is on this device. Throws `ESTALE` if it is exchanged again and again
    /// meanwhile.
    func materialize(_ ino: UInt64) async throws {
        for _ in 0..<Self.attempts {
            let row = try context.liveRow(ino)
            guard row.contentState != .complete else { return }
            let content: PartialContent
            do { content = try await bring(row) } catch {
                // The content may have arrived between the lookup and the start of the download.
                guard try context.liveRow(ino).contentState == .complete else { throw error }
                return
            }
            // The bytes are on disk; the index records that a moment later, unless the item has another version by
            // then.
            await completions.wait(for: ino) { [self] in
                guard let row = try? context.liveRow(ino) else { return true }
                return row.contentState == .complete || row.content != content.id
            }
            try Task.checkCancellation()
        }
        throw Errno.ESTALE
    }

    private func bring(_ row: ItemRow) async throws -> PartialContent {
        let content = try await unlessGone(row.ino) { [self] in
            let content = try await materializer.begin(row.key)
            defer { materializer.release(content) }
            try await materializer.fill(content, 0..<content.size)
            return content
        }
        // Not left to the download that placed the last bytes, because that may have failed afterwards.
        try materializer.finishIfComplete(content, of: row.key)
        return content
    }

    /// Runs the wait of an open until the inode leaves the tree; then throws `ESTALE`. The kernel looks the name up
    /// again and finds nothing, or another file.
    private func unlessGone(
        _ ino: UInt64, _ body: @escaping @Sendable () async throws -> PartialContent
    ) async throws -> PartialContent {
        try await withThrowingTaskGroup(of: PartialContent?.self) { group in
            group.addTask { try await body() }
            group.addTask { [self] in
                while !isGone(ino), !Task.isCancelled { await completions.wait(for: ino) { [self] in isGone(ino) } }
                return nil
            }
            let first = try await group.next() ?? nil
            group.cancelAll()
            if let first { return first }
            // If the content arrived in the same moment, the caller must release it.
            if let content = try? await group.next() ?? nil { return content }
            try Task.checkCancellation()
            throw Errno.ESTALE
        }
    }

    /// Whether the item is deleted. A failed lookup does not count: the item may exist.
    private func isGone(_ ino: UInt64) -> Bool {
        do {
            _ = try context.liveRow(ino)
            return false
        } catch {
            return error as? Errno == .ESTALE
        }
    }

    /// Downloads a small content completely. A read through the page cache waits for pages that the kernel reads ahead,
    /// and signals that the program handles do not end that wait. The kernel also asks a second time for pages that
    /// could not be read.
    private func fillIfSmall(_ content: PartialContent) async throws {
        guard content.size <= smallContent else { return }
        do { try await materializer.fill(content, 0..<content.size) } catch {
            materializer.release(content)
            throw error
        }
    }

    /// Begins the download for the inode that was opened. A remote change in between gives the item another content and
    /// inode. Through the old inode the kernel would show the new bytes up to the old size. Throws `ESTALE` then, so
    /// the kernel looks the name up again.
    func beginContent(of row: ItemRow) async throws -> PartialContent {
        let content = try await materializer.begin(row.key)
        do {
            guard try index.row(ino: row.ino)?.content == content.id else { throw Errno.ESTALE }
            return content
        } catch {
            materializer.release(content)
            throw error
        }
    }

    /// Begins a download and waits for the part that an open for reading needs.
    /// - Returns: the content; the caller must release it.
    func beginReading(_ row: ItemRow) async throws -> PartialContent {
        try await unlessGone(row.ino) { [self] in
            let content = try await beginContent(of: row)
            try await fillIfSmall(content)
            return content
        }
    }

    /// The same in advance of an open that follows.
    func bringForReading(_ row: ItemRow) async throws {
        let content = try await beginReading(row)
        defer { materializer.release(content) }
        try materializer.finishIfComplete(content, of: row.key)
    }

    /// Downloads the content of the new inode after a remote change replaced the inode that an open waited for. At
    /// ESTALE the kernel looks the name up again, but only once. If that second open had to wait too, the next change
    /// would make it fail. So it must find the content on this device.
    func bringSuccessor(of row: ItemRow, _ bring: @Sendable (ItemRow) async throws -> Void) async throws {
        for _ in 0..<Self.attempts {
            guard let next = try index.row(key: row.key), !next.isDeleted, next.ino != row.ino,
                next.contentState != .complete
            else { return }
            let node = openNodes.hold(next.ino)
            defer { openNodes.release(node) }
            do { return try await bring(next) } catch where error as? Errno == .ESTALE { continue }
        }
    }
}
