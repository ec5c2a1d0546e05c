package import UbiquityCore
internal import UbiquitySystem

// What a start does with the contents that the last run has kept.
extension ContentJournal {
    /// Writes the contents anew that a loss of power has taken, and empties the journal. After the death of the process
    /// alone all of them are in the kernel's memory, maybe newer than here, and are brought to the disk. To be called
    /// before anybody can use the contents; it blocks.
    /// - Parameter isUsed: whether the index has the content, and all of it should be here.
    /// - Returns: those that were written anew.
    @discardableResult
    package func restore(into store: ContentStore, isUsed: (ContentID) throws -> Bool) throws -> [ContentID] {
        let records = try records()
        guard !records.isEmpty else { return [] }
        var last = [ContentID: ContentRecord]()
        for record in records.sorted(by: { $0.number < $1.number }) { last[record.content] = record }
        var restored = [ContentID]()
        for (id, record) in last.sorted(by: { $0.key < $1.key }) {
            guard let bytes = record.bytes, try isUsed(id) else { continue }
            if record.boot != boot, try restore(id, bytes, record.modifiedAt, store) { restored.append(id) }
            try store.syncWhole(id)
        }
        FaultPoints.reach("content-journal.restored")
        try empty()
        return restored
    }

    /// - Returns: whether it was not as it had been synced.
    private func restore(
        _ id: ContentID, _ bytes: [UInt8], _ modifiedAt: Timestamp, _ store: ContentStore
    ) throws -> Bool {
        let file: FileDescriptor
        if let status = try store.status(of: id) {
            file = try store.open(id, writable: true)
            guard try !isNewer(file, status, than: modifiedAt) else { return false }
            let found = try describing("read a content", at: store.path(of: id)) { () throws(Errno) in
                try file.read(count: bytes.count, at: 0)
            }
            if status.size == bytes.count, found == bytes { return false }
            // A mixture of what was there at different times; who knows what for.
            if status.size > 0 { try store.copyAside(id) }
        } else {
            file = try store.create(id)
        }
        try describing("restore a content", at: store.path(of: id)) { () throws(Errno) in
            try file.write(bytes, at: 0)
            try file.truncate(to: Int64(bytes.count))
            try file.setTimes(accessed: nil, modified: modifiedAt)
        }
        return true
    }

    /// Whether it was written to after it was kept, and that has come to the disk, as when it was mapped and synced so:
    /// when it was kept it had no place there, so whatever has given it one has brought its times with it.
    private func isNewer(_ file: FileDescriptor, _ status: FileStatus, than time: Timestamp) throws -> Bool {
        guard status.size > 0, status.modifiedAt > time else { return false }
        return try describing("look at a content's holes") { () throws(Errno) in
            guard let hole = try file.nextHole(from: 0) else { return true }
            return hole >= status.size
        }
    }

    private func records() throws -> [ContentRecord] {
        try describing("read the journal of contents", at: path) { () throws(Errno) in
            let file: FileDescriptor
            do throws(Errno) { file = try FileDescriptor.open(path, .readOnly) } catch .ENOENT { return [] }
            var records = [ContentRecord]()
            for half in 0..<2 {
                let bytes = try file.read(count: Int(halfSize), at: position(of: half))
                records += ContentRecord.all(in: bytes)
            }
            return records
        }
    }

    private func empty() throws {
        try describing("empty the journal of contents", at: path) { () throws(Errno) in
            let file = try FileDescriptor.open(path, .readWrite)
            for half in 0..<2 {
                try file.write([UInt8](repeating: 0, count: ContentRecord.headerSize), at: position(of: half))
            }
            try file.sync()
        }
    }
}

extension ContentStore {
    /// Brings a content and its name to the disk; nothing if it is gone.
    package func syncWhole(_ id: ContentID) throws {
        guard try exists(id) else { return }
        let file = try open(id, writable: false)
        try describing("sync the content", at: path(of: id)) { () throws(Errno) in try file.syncData() }
        try syncName(of: id)
    }
}
