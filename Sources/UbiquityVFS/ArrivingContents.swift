internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Brings the contents that opens wait for, while items may get other contents or go.
struct ArrivingContents: Sendable {
    /// Times that a wait begins anew because the content was exchanged meanwhile.
    private static let attempts = 16

    let index: ItemIndex
    let materializer: any Materializer
    let completions: CompletionWaiters
    let openNodes: OpenNodeTable
    /// Contents up to this size, in bytes, are brought as a whole before they are read.
    let smallContent: Int64

    private func liveRow(_ ino: UInt64) throws -> ItemRow {
        guard let row = try index.row(ino: ino), !row.isDeleted else { throw Errno.ESTALE }
        return row
    }

    /// Waits until the whole content is here. Throws `ESTALE` if it is exchanged again and again meanwhile.
    func materialize(_ ino: UInt64) async throws {
        for _ in 0..<Self.attempts {
            let row = try liveRow(ino)
            guard row.contentState != .complete else { return }
            let content: PartialContent
            do { content = try await bring(row) } catch {
                // It may have come by itself between the question and the download's beginning.
                guard try liveRow(ino).contentState == .complete else { throw error }
                return
            }
            // The bytes are here; the index says so a moment later, unless they are of a version that it shows no more.
            await completions.wait(for: ino) { [self] in
                guard let row = try? liveRow(ino) else { return true }
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
        // Not left to what brought the last of it, which may have failed after that.
        try materializer.finishIfComplete(content, of: row.key)
        return content
    }

    /// What an open waits for. It ends when the inode leaves the tree: throws `ESTALE` then, at which the kernel looks
    /// the name up anew and finds none, or another file.
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
            // What came in the same moment is the caller's to give back.
            if let content = try? await group.next() ?? nil { return content }
            try Task.checkCancellation()
            throw Errno.ESTALE
        }
    }

    /// What cannot be looked up now may be there.
    private func isGone(_ ino: UInt64) -> Bool {
        do {
            _ = try liveRow(ino)
            return false
        } catch {
            return error as? Errno == .ESTALE
        }
    }

    /// A read through the page cache waits for pages that the kernel has begun to read ahead of it, and no signal that
    /// the program handles reaches that wait. The kernel asks a second time for what could not be read, too.
    private func fillIfSmall(_ content: PartialContent) async throws {
        guard content.size <= smallContent else { return }
        do { try await materializer.fill(content, 0..<content.size) } catch {
            materializer.release(content)
            throw error
        }
    }

    /// The content of the inode that was opened. Another device's change may come in between: the item has another
    /// content and another inode then, and through this one the kernel would show the new bytes up to the old size. It
    /// looks the name up anew.
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

    /// Begins a download and brings as much of the content as an open for reading waits for.
    /// - Returns: The content, in which the caller has an interest now.
    func beginReading(_ row: ItemRow) async throws -> PartialContent {
        try await unlessGone(row.ino) { [self] in
            let content = try await beginContent(of: row)
            try await fillIfSmall(content)
            return content
        }
    }

    /// The same for an open that comes next.
    func bringForReading(_ row: ItemRow) async throws {
        let content = try await beginReading(row)
        defer { materializer.release(content) }
        try materializer.finishIfComplete(content, of: row.key)
    }

    /// Another device's change has given the item another inode while an open waited for the old one. At ESTALE the
    /// kernel looks the name up anew, but only once. If that second open had to wait as well, the next change would
    /// make it fail too. So the content of the new inode comes first: the second open finds it here.
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
