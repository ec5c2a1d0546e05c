package import UbiquityCore
internal import UbiquitySystem

// Restores the contents that the last run has kept in the journal. Runs at the start.
extension ContentJournal {
    /// The result of a restoration.
    package struct Restoration: Sendable {
        /// Contents that were rewritten.
        package var restored: [ContentID] = []
        /// The error that kept a content from the disk. The journal then remains as it is and is not used.
        package var failure: (any Error)?
        /// Contents that a loss of power may have destroyed and that could not be rewritten. A start that continues
        /// without them loses them.
        package var missing: [ContentID] = []
    }

    /// Rewrites the contents that a loss of power has destroyed, and empties the journal. If only the process died, the
    /// kernel still has all contents, perhaps newer ones, and they are synced. Call it before anything uses the
    /// contents. Blocks.
    /// - Parameter isUsed: whether the index has the content and all of it should be here.
    package func restore(into store: ContentStore, isUsed: (ContentID) throws -> Bool) throws -> Restoration {
        let records = try records()
        var result = Restoration(), failed = Set<ContentID>()
        guard !records.isEmpty else { return result }
        var last = [ContentID: ContentRecord]()
        for (_, record) in records.sorted(by: { $0.record.number < $1.record.number }) { last[record.content] = record }
        for (id, record) in last.sorted(by: { $0.key < $1.key }) {
            guard id != ContentRecord.noContent, let bytes = record.bytes, try isUsed(id) else { continue }
            do {
                if record.boot == boot {
                    try store.writeAnew(id)
                } else if try restore(id, record, bytes, store) {
                    result.restored.append(id)
                }
                try store.syncWhole(id)
            } catch {
                result.failure = result.failure ?? error
                failed.insert(id)
                if record.boot != boot { result.missing.append(id) }
            }
        }
        FaultPoints.reach("content-journal.restored")
        guard result.failure != nil else {
            try empty()
            return result
        }
        state.withLock { $0.hasFailed = true }
        try strike(records.filter { !failed.contains($0.record.content) })
        return result
    }

    /// Marks records as void, so that a restored content is not restored again when a failed one is retried: programs
    /// may have changed it by then. Each record remains in place, with a content that does not exist.
    private func strike(_ records: [(position: Int64, record: ContentRecord)]) throws {
        try describing("write the journal of contents", at: path) { () throws(Errno) in
            let file = try FileDescriptor.openFile(path, .readWrite)
            for (position, record) in records {
                var struck = record
                struck.content = ContentRecord.noContent
                try file.write(Array(struck.encoded.prefix(ContentRecord.headerSize)), at: position)
            }
            try file.sync()
        }
    }

    /// - Returns: whether the file differed from the synced content or a newer one.
    private func restore(
        _ id: ContentID, _ record: ContentRecord, _ bytes: [UInt8], _ store: ContentStore
    ) throws -> Bool {
        let file: FileDescriptor, status: FileStatus?
        do throws(UbiquityError) {
            status = try store.status(of: id)
            file = try status == nil ? store.create(id) : store.open(id, writable: true)
            _ = try describing("read a content", at: store.path(of: id)) { () throws(Errno) in
                try file.read(count: min(Int(status?.size ?? 0), bytes.count), at: 0)
            }
        } catch {
            // The record has the whole content, so an unreadable file is not needed.
            guard error.code != .noSpace, error.code != .tooManyOpenFiles, (try? store.exists(id)) != false,
                (try? store.setAside(id)) != nil
            else { throw error }
            return try restore(id, record, bytes, store)
        }
        return try describing("restore a content", at: store.path(of: id)) { () throws(Errno) in
            // If the file has grown since, only the kept length matters.
            let found = try file.read(count: min(Int(status?.size ?? 0), bytes.count), at: 0)
            let size = status?.size ?? 0
            var wanted = bytes
            if let status, placement.changeTime(status) > record.changedAt {
                // The file was written after it was kept, and a part reached the disk, for example by a sync of a
                // mapping. When it was kept it had no blocks. So any allocated block is newer, and the record supplies
                // the rest.
                for range in try file.dataRanges(in: 0..<Int64(found.count)) {
                    let part = Int(range.lowerBound)..<min(Int(range.upperBound), found.count)
                    wanted.replaceSubrange(part, with: found[part])
                }
                guard wanted != found else { return false }
            } else {
                guard wanted != found || size > bytes.count else { return false }
                try file.truncate(to: Int64(bytes.count))
            }
            try file.write(wanted, at: 0)
            try file.setTimes(accessed: nil, modified: record.modifiedAt)
            return true
        }
    }

    private func records() throws -> [(position: Int64, record: ContentRecord)] {
        try describing("read the journal of contents", at: path) { () throws(Errno) in
            let file: FileDescriptor
            do throws(Errno) { file = try FileDescriptor.openFile(path, .readOnly) } catch .ENOENT { return [] }
            var records = [(position: Int64, record: ContentRecord)]()
            for half in 0..<2 {
                let bytes = try file.read(count: Int(halfSize), at: position(of: half))
                var start = position(of: half)
                for record in ContentRecord.all(in: bytes) {
                    records.append((start, record))
                    start += Int64(ContentRecord.headerSize + (record.bytes?.count ?? 0))
                }
            }
            return records
        }
    }

    private func empty() throws {
        try describing("empty the journal of contents", at: path) { () throws(Errno) in
            let file = try FileDescriptor.openFile(path, .readWrite)
            for half in 0..<2 {
                try file.write([UInt8](repeating: 0, count: ContentRecord.headerSize), at: position(of: half))
            }
            try file.sync()
        }
    }
}

extension ContentStore {
    /// Syncs a content and its name. Does nothing if the file is gone.
    package func syncWhole(_ id: ContentID) throws {
        guard try exists(id) else { return }
        let file = try open(id, writable: false)
        do throws(UbiquityError) {
            try FaultPoints.check("content.sync")
            try describing("sync the content", at: path(of: id)) { () throws(Errno) in try file.syncData() }
        } catch {
            noteFailedSync(id, error)
            throw error
        }
        try syncName(of: id)
    }

    /// Rewrites a content, so that the next sync writes all of it. After a failed sync the kernel takes pages for
    /// written that are not. Holes remain holes.
    /// - Parameter limit: the largest size, in bytes. A larger content is left alone.
    /// - Returns: false while a program writes to it, because the rewrite would undo its writes. The next sync may then
    ///   report success wrongly.
    @discardableResult
    package func writeAnew(_ id: ContentID, upTo limit: Int64 = Int64(ContentJournal.maximumContent)) throws -> Bool {
        guard try exists(id), try !hasWriters(id) else { return false }
        let file = try open(id, writable: true)
        try describing("rewrite the content", at: path(of: id)) { () throws(Errno) in
            let status = try file.status()
            guard status.size <= limit else { return }
            for range in try file.dataRanges(in: 0..<status.size) {
                for start in stride(from: range.lowerBound, to: range.upperBound, by: Self.pieceWrittenAnew) {
                    let count = Int(min(Int64(Self.pieceWrittenAnew), range.upperBound - start))
                    try file.write(try file.read(count: count, at: start), at: start)
                }
            }
            try file.setTimes(accessed: nil, modified: status.modifiedAt)
        }
        return true
    }

    /// Bytes in memory at a time.
    private static let pieceWrittenAnew = 1 << 20
}
