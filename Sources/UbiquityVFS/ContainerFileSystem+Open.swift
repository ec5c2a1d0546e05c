internal import Logging
internal import UbiquityContent
internal import UbiquityCoordination
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Opening and closing files.
extension ContainerFileSystem {
    /// Attempts of an open when the content is exchanged between two steps.
    private static let openAttempts = 16

    /// Opens a file. Opening for reading waits until a placeholder's download has begun; reading waits for its bytes.
    /// Opening for writing waits for the complete content, unless it truncates.
    package func open(_ ino: UInt64, flags: OpenFlags, caller: Caller) throws -> Answer<OpenedFile> {
        var flags = flags
        if let node = versionNodes.node(ino) { return try openVersion(node, ino, flags, caller) }
        let (row, isOrphan) = try row(ino)
        switch row.kind {
        case .directory: throw Errno.EISDIR
        case .symlink: throw Errno.ELOOP
        case .file: break
        case .hardLink: throw Errno.ESTALE
        // The kernel opens special files itself.
        case .fifo, .socket, .characterDevice, .blockDevice: throw Errno.ENXIO
        }
        if isOrphan { return .now(try openOrphan(row, flags)) }
        if isUse(row, caller) {
            noteUse(row.ino)
            flags.insert(.counted)
        }
        if flags.contains(.truncate) {
            finishCloses(of: ino)
            return .now(try flags.writes ? openTruncating(row, flags, caller) : openTruncated(row, flags, caller))
        }
        if row.contentState == .complete, let opened = try openWhole(ino, flags) { return .now(opened) }
        if row.size > 0, isSniffing(flags, caller) {
            guard let opened = try openJustCome(row, flags) else { throw Errno.EDEADLK }
            return .now(opened)
        }
        // An empty content needs no download.
        if row.size > 0, parts.backgroundReaders.isOne(caller.pid) {
            if let opened = try openJustCome(row, flags) { return .now(opened) }
            return .now(try openRefused(row, flags))
        }
        if flags.writes, flags.contains(.nonBlocking) { return .now(try openLate(ino, flags)) }
        return try flags.writes ? openWhenWhole(row, flags) : openPartly(row, flags)
    }

    /// Whether the open counts as a use when items are chosen for eviction. A backup or a scanner opens every file;
    /// counting that would make its walk the order of eviction. The check of the program takes some 20 µs and is made
    /// once a day per file.
    private func isUse(_ row: ItemRow, _ caller: Caller) -> Bool {
        let now = parts.timekeeper.now()
        let isRecent = now.nanoseconds &- row.usedAt.nanoseconds < UseLog.day || now < row.usedAt
        return isRecent || uses.contains(row.ino) || !parts.backgroundReaders.isOne(caller.pid)
    }

    // MARK: Content that is here

    /// Opens a file whose content is complete; nil if it is not.
    func openWhole(_ ino: UInt64, _ flags: OpenFlags) throws -> OpenedFile? {
        let node = openNodes.hold(ino)
        do {
            guard try attach(node, writes: flags.writes) else {
                openNodes.release(node)
                return nil
            }
        } catch {
            openNodes.release(node)
            throw error
        }
        return try keepingPromise(handle(on: node, flags, partial: nil), flags)
    }

    /// Opens a file whose content is complete, or whose last bytes are just entering the index; nil otherwise.
    func openJustCome(_ row: ItemRow, _ flags: OpenFlags) throws -> OpenedFile? {
        try hasJustCome(row) ? openWhole(row.ino, flags) : nil
    }

    /// Whether a background reader opens a file whose content is not on this device.
    func refusesDownload(_ ino: UInt64, _ flags: OpenFlags, _ caller: Caller) throws -> Bool {
        guard !flags.contains(.truncate) else { return false }
        if isInVersions(ino) { return isSniffing(flags, caller) || parts.backgroundReaders.isOne(caller.pid) }
        guard let row = try index.row(ino: ino), row.contentState != .complete, row.size > 0,
            isSniffing(flags, caller) || parts.backgroundReaders.isOne(caller.pid)
        else { return false }
        return !hasJustCome(row)
    }

    /// Records the author of writes through the handle.
    func setAuthor(_ doer: Doer, _ handle: UInt64) {
        guard let file = try? files.object(handle), file.flags.writes else { return }
        file.node.state.withLock { state in
            let others = state.writers > 1 ? state.doer : nil
            state.doer = others?.joined(by: doer) ?? doer
        }
    }

    /// If the disk is full, the item stays a placeholder.
    func hasJustCome(_ row: ItemRow) -> Bool { (try? finished(row))?.contentState == .complete }

    /// Keeps the promise of O_SYNC and O_DSYNC. Such a program calls no `fsync`: from its first write on, the file
    /// survives a power loss under its name.
    func keepingPromise(_ opened: OpenedFile, _ flags: OpenFlags) throws -> OpenedFile {
        guard flags.writes, flags.contains(.dataSync) else { return opened }
        do {
            let node = try files.object(opened.handle).node
            try beginWritingThrough(node)
            if let id = node.state.withLock({ $0.isNameSynced ? nil : $0.whole?.id }) {
                try contents.syncName(of: id)
                node.state.withLock { $0.isNameSynced = $0.whole?.id == id }
            }
            try index.makeChangesDurable()
            return opened
        } catch {
            release(opened.handle)
            throw error
        }
    }

    /// Drops the journal of an earlier state. After a power loss, recovery would lay it over later writes whose times
    /// may not be on disk.
    private func beginWritingThrough(_ node: OpenNode) throws {
        let whole = node.state.withLock { state in
            state.writesThrough = true
            return state.whole
        }
        guard let whole else { return }
        let isReplacement = index.isReplacement(whole.id)
        guard isReplacement || contents.journal?.mark(of: whole.id) != nil else { return }
        // After a failed sync the next one can succeed without having written the data. The journal is then the only
        // copy left.
        try requireSyncs(of: whole.id)
        try syncContent(of: whole, node, try whole.file.status())
        if isReplacement { try index.forgetReplacements([whole.id]) }
    }

    /// Gives the node its backing file, and records a writer in the index.
    /// - Returns: false if the content is not complete.
    func attach(_ node: OpenNode, writes: Bool) throws -> Bool {
        for _ in 0..<Self.openAttempts {
            let isAttached: Bool? = try node.state.withLock { state in
                // Read the row under the lock: a close may just be recorded, after which the index counts no writer.
                let row = try liveRow(node.ino)
                guard row.contentState == .complete, let content = row.content else { return nil }
                do {
                    try open(content, of: row, writable: writes, &state)
                } catch where Errno(describing: error) == .ENOENT {
                    // Either another content has replaced it since the row was read, or the item exists and its content
                    // file is missing.
                    guard try liveRow(node.ino).content == content else { return false }
                    throw UbiquityError(
                        .damaged, "the content file is missing on this device",
                        remedy: "run 'ubiquity doctor': it restores the content if it finds a copy")
                }
                return try !writes || addWriter(node, content, row, &state)
            }
            guard let isAttached else { return false }
            if isAttached { return true }
        }
        throw Errno.ESTALE
    }

    /// Opens the backing file, or reopens it for writing.
    func open(_ content: ContentID, of row: ItemRow, writable: Bool, _ state: inout OpenNode.State) throws {
        if let whole = state.whole, whole.id == content, whole.isWritable || !writable { return }
        // Handles that the kernel serves would keep the old content. Nothing exchanges the content of an open inode; if
        // it should happen, refusing loses nothing.
        if case .kernel(_, let served) = state.service, served != content { throw Errno.EBUSY }
        let reader = state.whole.flatMap { $0.id == content ? $0.file : nil } ?? idle.file(row.ino, content)
        if !writable, let reader {
            state.whole = OpenNode.Whole(file: reader, id: content, isWritable: false)
        } else {
            state.whole = OpenNode.Whole(
                file: try contents.open(content, writable: writable), id: content, isWritable: writable,
                reader: reader)
        }
        state.notePrivileges(row)
    }

    /// - Returns: false if the content was exchanged before the index recorded the writer; the caller tries again.
    private func addWriter(
        _ node: OpenNode, _ content: ContentID, _ known: ItemRow, _ state: inout OpenNode.State
    ) throws -> Bool {
        if !state.isRecorded {
            if let file = state.whole?.file { try bringToDisk(content, of: node.ino, file) }
            // The last writer's changes are not recorded yet (`unnoted`). This writer records them, with the file's
            // times.
            let isUnnoted = known.isWriting
            // From now on `stat` shows the backing file's times. They must not jump, even if this process dies here. If
            // they already match, leave them, so that the change time stays.
            if !isUnnoted, let file = state.whole?.file, try file.status().modifiedAt != known.modifiedAt {
                try file.setTimes(accessed: nil, modified: known.modifiedAt)
            }
            let row = try index.beginWriting(ino: node.ino)
            guard row.content == content, let file = state.whole?.file else {
                _ = try index.noteWriting(
                    ino: node.ino, changed: false, size: row.size, modifiedAt: row.modifiedAt, stillOpen: false)
                state.whole = nil
                return false
            }
            state.isRecorded = true
            state.isTouched = isUnnoted
            state.unrest = nil
            do {
                if !isUnnoted, row.modifiedAt != known.modifiedAt {
                    try file.setTimes(accessed: nil, modified: row.modifiedAt)
                }
                state.stamp = OpenNode.Stamp(try file.status())
            } catch {
                // No later close would record that the file is no longer written.
                if state.writers == 0, !state.mayBeMapped { noteLastClose(node, &state) }
                throw error
            }
        }
        state.writers += 1
        return true
    }

    /// Flushes a downloaded content before a program writes to it. After a power loss, the program's bytes could not be
    /// told from bytes that never reached the disk.
    func bringToDisk(_ content: ContentID, of ino: UInt64, _ file: FileDescriptor) throws {
        let row = try liveRow(ino)
        guard row.content == content, !row.dirty.contains(.content), !row.isWriting,
            try index.peek({ try $0.isUnsynced(content) })
        else { return }
        // After a failed sync the kernel treats the lost pages as written.
        try requireSyncs(of: content)
        try rememberingFailure(of: content) { () throws(Errno) in try file.syncData() }
        try contents.syncName(of: content)
        try index.write(.local) { try $0.markSynced([content]) }
    }

    /// - Parameter isNew: whether the kernel does not know the inode yet.
    func handle(
        on node: OpenNode, _ flags: OpenFlags, partial: PartialSource?, late: LateWriter? = nil, isNew: Bool = false
    ) -> OpenedFile {
        let backing = beginService(of: node, flags, isNew: isNew)
        let handle = files.add(OpenFile(node: node, flags: flags, partial: partial, late: late))
        if flags.contains(.refused) {
            // Keep the cache only where a program may wait for pages of the partial content. No program reads into
            // other pages.
            let keepsCache = inodes.withNode(node.ino) { $0.pages != nil } ?? false
            return OpenedFile(handle: handle, keepsCache: keepsCache, backing: backing, bypassesPages: true)
        }
        let content = backing == nil ? partial?.contentID ?? node.state.withLock { $0.whole?.id } : nil
        let keepsCache = inodes.withNode(node.ino) { known in
            defer { known.pages = content }
            return content != nil && known.pages == content
        }
        return OpenedFile(handle: handle, keepsCache: keepsCache ?? false, backing: backing)
    }

    // MARK: Content that is not here

    var arriving: ArrivingContents {
        ArrivingContents(
            index: index, materializer: parts.materializer, completions: completions, openNodes: openNodes,
            smallContent: parts.smallContent)
    }

    private func openWhenWhole(_ row: ItemRow, _ flags: OpenFlags) throws -> Answer<OpenedFile> {
        // Hold the node now, so that the downloaded content is not evicted before the open.
        let node = openNodes.hold(row.ino)
        return .later { [self] in
            defer { openNodes.release(node) }
            do {
                try await arriving.materialize(row.ino)
                guard let opened = try openWhole(row.ino, flags) else { throw Errno.ESTALE }
                return opened
            } catch where error as? Errno == .ESTALE {
                try await arriving.bringSuccessor(of: row) { [arriving] in try await arriving.materialize($0.ino) }
                throw Errno.ESTALE
            }
        }
    }

    /// Opens a placeholder for a program whose reads are refused. Readers may look at the file without its bytes; a
    /// writer needs the content.
    private func openRefused(_ row: ItemRow, _ flags: OpenFlags) throws -> OpenedFile {
        guard !flags.writes else { throw Errno.EDEADLK }
        return handle(on: openNodes.hold(row.ino), flags.union(.refused), partial: nil)
    }

    private func openPartly(_ row: ItemRow, _ flags: OpenFlags) throws -> Answer<OpenedFile> {
        if flags.contains(.nonBlocking), row.size > 0 {
            let beginning = PendingContent(row.content) { [arriving] in try await arriving.beginContent(of: row) }
            return .now(handle(on: openNodes.hold(row.ino), flags, partial: .pending(beginning)))
        }
        // Hold the node now, so that the item is not evicted or taken for unused while the download begins.
        let node = openNodes.hold(row.ino)
        return .later { [self] in
            do {
                return handle(on: node, flags, partial: .content(try await arriving.beginReading(row)))
            } catch {
                openNodes.release(node)
                // Between lookup and download the content may have arrived, or the item may be gone.
                if let row = try index.row(ino: row.ino), row.contentState == .complete,
                    let opened = try openWhole(row.ino, flags)
                {
                    return opened
                }
                if error as? Errno == .ESTALE {
                    try await arriving.bringSuccessor(of: row) { [arriving] in try await arriving.bringForReading($0) }
                }
                throw error
            }
        }
    }

    // MARK: Closing

    /// Answers a kernel flush. Writes are never deferred to the close, so every write has already reported its errors.
    package func flush(_ handle: UInt64) throws { _ = try files.object(handle) }

    /// Releases a handle that the kernel has closed. After the last writer's release the index records the changes.
    package func release(_ handle: UInt64) {
        if !putOff(handle) { releaseNow(handle) }
    }

    func releaseNow(_ handle: UInt64) {
        guard let file = files.remove(handle) else { return }
        let isWriter = file.late.map(close) ?? file.flags.writes
        if isUsedTill(file) { noteUse(file.node.ino) }
        let isHeld = file.node.state.withLock { state in
            defer { endService(of: file.node, &state) }
            guard isWriter else { return false }
            state.writers -= 1
            return state.writers == 0 && !endWriting(file.node, &state) && mapped.add(file.node)
        }
        if isHeld { watchMapped() } else { openNodes.release(file.node) }
        giveBack(file.partial)
    }

    private func giveBack(_ partial: PartialSource?) {
        let materializer = parts.materializer
        switch partial {
        case .content(let content): materializer.release(content)
        case .pending(let beginning):
            beginning.cancel()
            Task.detached {
                // If the download failed to begin, there is nothing to release.
                if let content = try? await beginning.value { materializer.release(content) }
            }
        case nil: break
        }
    }

    /// Whether the close is a use that the log does not have. A file open all day was not last used in the morning. For
    /// a new file the index has its creation time; that is enough if the file closes soon.
    private func isUsedTill(_ file: OpenFile) -> Bool {
        if file.flags.contains(.counted) { return true }
        guard file.flags.contains(.create), let row = try? index.row(ino: file.node.ino) else { return false }
        return parts.timekeeper.now().nanoseconds &- row.usedAt.nanoseconds > UseLog.making
    }

    private func noteUse(_ ino: UInt64) {
        write(uses: uses.add(ino, now: parts.timekeeper.now()))
    }

    /// Writes the times of last use to the index. Eviction calls it before it sorts items by last use.
    package func noteUses() { write(uses: uses.take(now: parts.timekeeper.now())) }

    private func write(uses: [UInt64: Timestamp]) {
        var rest = uses[...]
        do {
            while !rest.isEmpty {
                try index.noteUses(rest.prefix(UseLog.batch).map { (ino: $0.key, time: $0.value) })
                rest = rest.dropFirst(UseLog.batch)
            }
        } catch {
            logger.warning("cannot record when files were last used", metadata: ["error": "\(error)"])
        }
    }

    /// Writes the changes deferred for batching. Called periodically, and before the end.
    package func settle() {
        write(uses: uses.takeIfDue(now: parts.timekeeper.now()))
        finishCloses()
        retryNotes()
        noteOpenWriters()
        refreshIgnoreFiles()
        letGo(of: idle.takeOld(now: parts.timekeeper.now()))
    }
}
