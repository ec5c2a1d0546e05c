internal import UbiquityContent
package import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem
internal import UbiquityVFS

// The operations of programs on the contents of files. Paths are relative to the top.
extension SimulatedDevice {
    /// Makes a file, writes it and closes it.
    /// - Parameter synced: with an fsync before the close.
    package func create(_ path: String, _ bytes: [UInt8], synced: Bool = false) async throws {
        let life = try life
        let (parent, name) = try place(path)
        let made = try life.claimedFileSystem.create(
            parent: parent.ino, name: name.bytes, mode: 0o644, flags: [.readWrite, .create, .exclusive],
            caller: caller).immediate
        let file = OpenProgramFile(life: life, device: self, handle: made.opened.handle, ino: made.attributes.ino)
        try await file.use {
            await world.pause()
            try file.write(bytes, at: 0)
            try await file.finish(synced: synced)
        }
    }

    /// Opens a file, replaces its bytes in place, and closes it. Downloads the content first if it is absent.
    package func edit(
        _ path: String, synced: Bool = false, _ change: @Sendable ([UInt8]) -> [UInt8]
    ) async throws {
        let file = try await openForWriting(path)
        try await file.use {
            await world.pause()
            let bytes = change(try await file.read())
            try await file.replace(bytes)
            await world.pause()
            try await file.finish(synced: synced)
        }
    }

    /// Writes some bytes at the end, or at another offset, and closes the file.
    package func patch(_ path: String, at position: Double, _ bytes: [UInt8], synced: Bool = false) async throws {
        let file = try await openForWriting(path)
        try await file.use {
            let size = try file.size()
            file.giveUp()
            try file.write(bytes, at: Int64(Double(size) * position))
            await world.pause()
            try await file.finish(synced: synced)
        }
    }

    /// Writes into a file without closing it, and the machine dies.
    /// - Parameter syncs: the number of syncs during the writes, the last one after all of them.
    package func editAndCrash(
        _ path: String, _ bytes: [UInt8], syncs: Int = 0, powerLoss: Bool = false
    ) async throws {
        let file = try await openForWriting(path)
        try await file.use {
            try await file.replace(syncs > 0 ? [] : bytes)
            for part in 0..<syncs {
                try file.write(Array(bytes.prefix(bytes.count * (part + 1) / syncs)), at: 0)
                try file.sync()
                await world.pause()
            }
            // An acknowledged write survives the process.
            file.note(bytes, isSynced: syncs > 0)
            await world.pause()
            crash(powerLoss: powerLoss)
        }
    }

    /// Makes a file. The power fails before the first write to it, and after the index is on the disk.
    package func createAndLosePower(_ path: String) throws {
        let life = try life
        let (parent, name) = try place(path)
        _ = try life.claimedFileSystem.create(
            parent: parent.ino, name: name.bytes, mode: 0o644, flags: [.readWrite, .create, .exclusive], caller: caller).immediate
        try life.index.makeDurable()
        crash(powerLoss: true)
    }

    /// `open(O_TRUNC)`: the earlier content is not needed.
    /// - Parameter pause: the time until the program writes.
    package func overwrite(
        _ path: String, _ bytes: [UInt8], synced: Bool = false, pause: Duration? = nil
    ) async throws {
        let life = try life, row = try live(path)
        let taken = ledger.take(row.content)
        let file: OpenProgramFile
        do {
            let opened = try await life.claimedFileSystem.open(
                row.ino, flags: [.writeOnly, .truncate], caller: caller).value
            file = OpenProgramFile(life: life, device: self, handle: opened.handle, ino: row.ino)
        } catch {
            if life.isAlive { ledger.putBack(taken) }
            throw error
        }
        try await file.use {
            await world.pause()
            if let pause { try await world.sleep(for: pause) }
            try file.write(bytes, at: 0)
            try await file.finish(synced: synced)
        }
    }

    /// Opens a file for writing and writes the same bytes again.
    package func rewrite(_ path: String) async throws { try await edit(path) { $0 } }

    /// Saves as editors do: a file of another name, renamed over the document.
    package func saveOver(_ path: String, _ bytes: [UInt8], synced: Bool = false) async throws {
        let temporary = path + ".new"
        try await create(temporary, bytes, synced: synced)
        await world.pause()
        try rename(temporary, path)
    }

    /// The whole content, downloaded if it is absent.
    package func read(_ path: String) async throws -> [UInt8] {
        for _ in 0..<20 {
            let life = try life, row = try live(path)
            do {
                let opened = try await life.claimedFileSystem.open(row.ino, flags: [], caller: caller).value
                let file = OpenProgramFile(life: life, device: self, handle: opened.handle, ino: row.ino)
                defer { file.release() }
                return try await file.read()
            } catch let error where Errno(describing: error) == .ESTALE {
                continue
            }
        }
        throw UbiquityError(.stale, "the file changes too often to be read", at: path)
    }

    /// Reads during a request to evict the content.
    package func readWhileEvicting(_ path: String) async throws -> [UInt8] {
        let life = try life, row = try live(path)
        let opened = try await life.claimedFileSystem.open(row.ino, flags: [], caller: caller).value
        let file = OpenProgramFile(life: life, device: self, handle: opened.handle, ino: row.ino)
        defer { file.release() }
        try evictIfAllowed(path)
        return try await file.read()
    }

    /// Waits until the whole content is on the device.
    package func materialize(_ path: String) async throws {
        for _ in 0..<200 {
            guard try live(path).isPlaceholder else { return }
            _ = try await read(path)
            // The bytes are here; the index records that a moment later.
            try await world.sleep(for: .milliseconds(10))
        }
        throw UbiquityError(.stale, "the file does not become whole", at: path)
    }

    /// `fsync` of a folder: all names are on the disk.
    package func syncFolder() throws { try life.claimedFileSystem.syncDirectory() }

    private func openForWriting(_ path: String) async throws -> OpenProgramFile {
        let life = try life, row = try live(path)
        let opened = try await life.claimedFileSystem.open(row.ino, flags: .readWrite, caller: caller).value
        return OpenProgramFile(life: life, device: self, handle: opened.handle, ino: row.ino)
    }

    package static func fingerprint(_ bytes: [UInt8]) -> ChunkID { ChunkNaming.name(of: bytes) }
}

/// A file that a program has open.
private struct OpenProgramFile: Sendable {
    let life: DeviceLife
    let device: SimulatedDevice
    let handle: UInt64
    let ino: UInt64

    private var fileSystem: ClaimedFileSystem { life.claimedFileSystem }

    /// Closes the file if `body` fails before it has.
    func use(_ body: () async throws -> Void) async throws {
        do { try await body() } catch {
            release()
            throw error
        }
    }

    func release() { fileSystem.release(handle) }

    func size() throws -> Int64 { try fileSystem.attributes(of: ino, handle: handle).size }

    func read() async throws -> [UInt8] {
        let data = try await fileSystem.read(handle, offset: 0, length: Int(size())).value
        return try data.descriptor.read(count: data.length, at: data.offset)
    }

    func write(_ bytes: [UInt8], at offset: Int64) throws {
        _ = try bytes.withUnsafeBytes { try fileSystem.write(handle, offset: offset, $0, caller: device.caller) }
    }

    func sync() throws { try fileSystem.sync(handle) }

    /// The earlier content is not required any more.
    func giveUp() {
        guard let row = try? life.index.row(ino: ino) else { return }
        _ = device.ledger.take(row.content)
    }

    func replace(_ bytes: [UInt8]) async throws {
        giveUp()
        _ = try await fileSystem.setAttributes(
            of: ino, AttributeChanges(size: 0), handle: handle, caller: device.caller).value
        try write(bytes, at: 0)
    }

    /// Closes it. The content at that time must not be lost.
    func finish(synced: Bool) async throws {
        giveUp()
        let bytes = try await read(), row = try? life.index.row(ino: ino)
        if synced { try fileSystem.sync(handle) }
        release()
        guard life.isAlive, let row, let content = row.content, !row.isDeleted, !row.isExcluded else { return }
        device.ledger.note(
            content, Ledger.Entry(fingerprint: SimulatedDevice.fingerprint(bytes), isSynced: synced))
    }

    /// The content at this time must not be lost, though the file was not closed.
    func note(_ bytes: [UInt8], isSynced: Bool) {
        guard life.isAlive, let row = try? life.index.row(ino: ino), let content = row.content, !row.isDeleted else {
            return
        }
        device.ledger.note(
            content, Ledger.Entry(fingerprint: SimulatedDevice.fingerprint(bytes), isSynced: isSynced))
    }
}
