internal import UbiquityContent
package import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem

// What a user does with the contents of files, as the file system would carry it out. Paths are relative to the top.
extension SimulatedDevice {
    /// Makes a file, writes it and closes it.
    package func create(_ path: String, _ bytes: [UInt8]) async throws {
        let (parent, name) = try place(path)
        let content = ContentID(try index.newContentNumber())
        let file = try store.create(content)
        let row: ItemRow
        do {
            row = try index.create(
                in: parent.ino, named: name,
                NewItem(kind: .file, mode: 0o644, uid: 1000, gid: 1000, content: content, isWriting: true))
        } catch {
            try store.remove(content)
            throw error
        }
        await world.pause()
        try write(bytes, to: file)
        let current = try index.row(ino: row.ino) ?? row
        ledger.close(current.key, Self.fingerprint(bytes), before: nil)
        try close(row.ino, bytes.count)
    }

    /// Opens a file, changes its bytes in place, and closes it. Downloads it first if it is not here.
    package func edit(_ path: String, _ change: @Sendable ([UInt8]) -> [UInt8]) async throws {
        try await materialize(path)
        let (row, file) = try openForWriting(path)
        await world.pause()
        let bytes = change(try read(file))
        try write(bytes, to: file)
        guard let before = try index.row(ino: row.ino) else { return }
        ledger.close(before.key, Self.fingerprint(bytes), before: before)
        await world.pause()
        try close(row.ino, bytes.count)
    }

    /// Writes into a file without closing it, and the machine dies.
    package func editAndCrash(_ path: String, _ bytes: [UInt8]) async throws {
        try await materialize(path)
        let (row, file) = try openForWriting(path)
        try write(bytes, to: file)
        ledger.close(row.key, Self.fingerprint(bytes), before: row)
        await world.pause()
        crash()
    }

    /// `open(O_TRUNC)`: what was there is not needed.
    package func overwrite(_ path: String, _ bytes: [UInt8]) async throws {
        let row = try live(path)
        guard row.kind == .file else { throw UbiquityError(.isDirectory, "not a file") }
        let content = ContentID(try index.newContentNumber())
        let file = try store.create(content)
        ledger.giveUp(row)
        let (before, _) = try index.replaceContent(ino: row.ino, with: content, isWriting: true)
        if let old = before.content { try store.remove(old) }
        await world.pause()
        try write(bytes, to: file)
        ledger.close(row.key, Self.fingerprint(bytes), before: nil)
        try close(row.ino, bytes.count)
    }

    /// Opens a file for writing and writes the very bytes that are there.
    package func rewrite(_ path: String) async throws { try await edit(path) { $0 } }

    /// As editors save: a file of another name, renamed over the document.
    package func saveOver(_ path: String, _ bytes: [UInt8]) async throws {
        let temporary = path + ".new"
        try await create(temporary, bytes)
        await world.pause()
        try rename(temporary, path)
    }

    /// The whole content, downloaded if need be.
    package func read(_ path: String) async throws -> [UInt8] {
        for _ in 0..<20 {
            let row = try live(path)
            guard row.kind == .file else { throw UbiquityError(.isDirectory, "not a file") }
            if row.contentState == .complete, let content = row.content {
                return try read(store.open(content, writable: false))
            }
            do { return try await download(row) } catch let error as UbiquityError where error.code == .stale {
                continue
            }
        }
        throw UbiquityError(.stale, "the file changes too often to be read", at: path)
    }

    private func download(_ row: ItemRow) async throws -> [UInt8] {
        let engine = try engine
        let content = try await engine.begin(row.key)
        defer { engine.release(content) }
        try await engine.fill(content, 0..<content.size)
        return try read(content.file)
    }

    /// Waits until the whole content is here.
    package func materialize(_ path: String) async throws {
        for _ in 0..<200 {
            let row = try live(path)
            guard row.isPlaceholder else { return }
            do { _ = try await download(row) } catch let error as UbiquityError where error.code == .stale { continue }
            // The bytes are here; the index says so a moment later.
            try await world.sleep(for: .milliseconds(10))
        }
        throw UbiquityError(.stale, "the file does not become whole", at: path)
    }

    // MARK: Parts

    private func openForWriting(_ path: String) throws -> (ItemRow, FileDescriptor) {
        let row = try live(path)
        guard row.kind == .file, row.contentState == .complete, let content = row.content else {
            throw UbiquityError(.stale, "the content is not here", at: path)
        }
        let file = try store.open(content, writable: true)
        return (try index.beginWriting(ino: row.ino), file)
    }

    private func write(_ bytes: [UInt8], to file: FileDescriptor) throws {
        try file.truncate(to: 0)
        try file.write(bytes, at: 0)
        try file.setTimes(accessed: nil, modified: timekeeper.now())
    }

    private func close(_ ino: UInt64, _ size: Int) throws {
        // Removed or replaced while it was open.
        guard let row = try index.row(ino: ino), !row.isDeleted else { return }
        _ = try index.noteWriting(
            ino: row.ino, changed: true, size: Int64(size), modifiedAt: timekeeper.now(), stillOpen: false)
    }

    func read(_ file: FileDescriptor) throws -> [UInt8] { try file.read(count: Int(file.status().size), at: 0) }

    package static func fingerprint(_ bytes: [UInt8]) -> ChunkID { ChunkNaming.name(of: bytes) }
}
