internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Opening and closing files.
extension ContainerFileSystem {
    /// Times that an open is tried anew because the content was exchanged between two steps.
    private static let openAttempts = 16

    func openUnclaimed(_ ino: UInt64, flags: OpenFlags, caller: Caller) throws -> Answer<OpenedFile> {
        var flags = flags
        if let node = versionNodes.node(ino) { return try openVersion(node, ino, flags, caller) }
        let (row, isOrphan) = try row(ino)
        switch row.kind {
        case .directory: throw Errno.EISDIR
        case .symlink: throw Errno.ELOOP
        case .file: break
        case .hardLink: throw Errno.ESTALE
        // The kernel opens them itself.
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
        // Of what is empty there is nothing to wait for.
        if row.size > 0, parts.backgroundReaders.isOne(caller.pid) {
            if let opened = try openJustCome(row, flags) { return .now(opened) }
            return .now(try openRefused(row, flags))
        }
        if flags.writes, flags.contains(.nonBlocking) { return .now(try openLate(ino, flags)) }
        return try flags.writes ? openWhenWhole(row, flags) : openPartly(row, flags)
    }

    /// Whether the open counts for the choice of what to evict. A backup or a scanner opens everything, and then the
    /// order of its walk would be that of eviction. Who it is is asked once a day of a file: that takes some 20 us.
    private func isUse(_ row: ItemRow, _ caller: Caller) -> Bool {
        let now = parts.timekeeper.now()
        let isRecent = now.nanoseconds &- row.usedAt.nanoseconds < UseLog.day || now < row.usedAt
        return isRecent || uses.contains(row.ino) || !parts.backgroundReaders.isOne(caller.pid)
    }

    // MARK: Content that is here

    /// Nil if the content is not wholly here.
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

    /// Nil if the content is not wholly here, nor was the last of it on its way into the index.
    func openJustCome(_ row: ItemRow, _ flags: OpenFlags) throws -> OpenedFile? {
        try hasJustCome(row) ? openWhole(row.ino, flags) : nil
    }

    /// A disk that takes nothing leaves it a placeholder.
    func hasJustCome(_ row: ItemRow) -> Bool { (try? finished(row))?.contentState == .complete }

    /// Of a program that opens with O_SYNC or O_DSYNC no `fsync` comes: its file is there after a loss of power, by its
    /// name, from the first write on.
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

    /// What is kept of an earlier state would be laid over what is written next, whose times may not be on the disk.
    private func beginWritingThrough(_ node: OpenNode) throws {
        let whole = node.state.withLock { state in
            state.writesThrough = true
            return state.whole
        }
        guard let whole else { return }
        let isReplacement = index.isReplacement(whole.id)
        guard isReplacement || contents.journal?.mark(of: whole.id) != nil else { return }
        // After a failed sync another would succeed, and what is kept is all that is left.
        try requireSyncs(of: whole.id)
        try syncContent(of: whole, node, try whole.file.status())
        if isReplacement { try index.forgetReplacements([whole.id]) }
    }

    /// Gives the node its backing file, and tells the index of a writer.
    /// - Returns: false if the content is not wholly here.
    func attach(_ node: OpenNode, writes: Bool) throws -> Bool {
        for _ in 0..<Self.openAttempts {
            let isAttached: Bool? = try node.state.withLock { state in
                // Not before: a close may just be noted, and nobody writes any more when that is done.
                let row = try liveRow(node.ino)
                guard row.contentState == .complete, let content = row.content else { return nil }
                do {
                    try open(content, of: row, writable: writes, &state)
                } catch where Errno(describing: error) == .ENOENT {
                    // Another has taken its place since the row was read; or the item is there and its content is not.
                    guard try liveRow(node.ino).content == content else { return false }
                    throw UbiquityError(
                        .damaged, "the content is gone from this device",
                        remedy: "'ubiquity doctor' looks for it elsewhere")
                }
                return try !writes || addWriter(node, content, row, &state)
            }
            guard let isAttached else { return false }
            if isAttached { return true }
        }
        throw Errno.ESTALE
    }

    /// Opens the backing file, or opens it for writing as well.
    func open(_ content: ContentID, of row: ItemRow, writable: Bool, _ state: inout OpenNode.State) throws {
        if let whole = state.whole, whole.id == content, whole.isWritable || !writable { return }
        // The handles that the kernel serves would stay with the other content. Nothing exchanges the content of an
        // inode that is open; should it happen, a refusal loses nothing.
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

    /// - Returns: false if the content was exchanged before the index took note: to be tried again.
    private func addWriter(
        _ node: OpenNode, _ content: ContentID, _ known: ItemRow, _ state: inout OpenNode.State
    ) throws -> Bool {
        if !state.isRecorded {
            if let file = state.whole?.file { try bringToDisk(content, of: node.ino, file) }
            // What the last writer did is not noted yet (`unnoted`): that is this one's to note, with the file's times.
            let isUnnoted = known.isWriting
            // From now on the backing file shows the times: they must not jump, also if this process dies just then.
            // Where they are that already, the time of the file's change stays what it is: nobody has changed it.
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
                // Nobody else would tell the index that it is not being written.
                if state.writers == 0, !state.mayBeMapped { noteLastClose(node, &state) }
                throw error
            }
        }
        state.writers += 1
        return true
    }

    /// What the cloud has of a file is on the disk before a program writes into it: after a power loss nobody could
    /// tell what the program wrote from what never got there.
    func bringToDisk(_ content: ContentID, of ino: UInt64, _ file: FileDescriptor) throws {
        let row = try liveRow(ino)
        guard row.content == content, !row.dirty.contains(.content), !row.isWriting,
            try index.peek({ try $0.isUnsynced(content) })
        else { return }
        // After a failure the kernel takes for written what is not.
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
            // Somebody may be waiting for pages that are of what is shown; others nobody reads in.
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
        // Held from now on, so that what has come of it is not evicted meanwhile.
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

    /// A program that looks at files without reading them may do so; no writer may go on without the content.
    private func openRefused(_ row: ItemRow, _ flags: OpenFlags) throws -> OpenedFile {
        guard !flags.writes else { throw Errno.EDEADLK }
        return handle(on: openNodes.hold(row.ino), flags.union(.refused), partial: nil)
    }

    private func openPartly(_ row: ItemRow, _ flags: OpenFlags) throws -> Answer<OpenedFile> {
        if flags.contains(.nonBlocking), row.size > 0 {
            let beginning = PendingContent(row.content) { [arriving] in try await arriving.beginContent(of: row) }
            return .now(handle(on: openNodes.hold(row.ino), flags, partial: .pending(beginning)))
        }
        // Held from now on, so that it is not evicted or taken for unused while the download begins.
        let node = openNodes.hold(row.ino)
        return .later { [self] in
            do {
                return handle(on: node, flags, partial: .content(try await arriving.beginReading(row)))
            } catch {
                openNodes.release(node)
                // Between the question and the download the content may have come by itself, or the item may be gone.
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

    /// Nothing is kept back until a close; what a write could not do, it said.
    package func flush(_ handle: UInt64) throws { _ = try files.object(handle) }

    func releaseUnclaimed(_ handle: UInt64) {
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
                // A beginning that failed gives no interest to give back.
                if let content = try? await beginning.value { materializer.release(content) }
            }
        case nil: break
        }
    }

    /// Whether the close is a use that the log does not know: what is open all day was not used last in the morning. Of
    /// a new file the index has the time of its making; most are closed at once, and then that will do.
    private func isUsedTill(_ file: OpenFile) -> Bool {
        if file.flags.contains(.counted) { return true }
        guard file.flags.contains(.create), let row = try? index.row(ino: file.node.ino) else { return false }
        return parts.timekeeper.now().nanoseconds &- row.usedAt.nanoseconds > UseLog.making
    }

    private func noteUse(_ ino: UInt64) {
        write(uses: uses.add(ino, now: parts.timekeeper.now()))
    }

    /// Tells the index when files were last used. To be called before what was not used for longest is evicted.
    package func noteUses() { write(uses: uses.take(now: parts.timekeeper.now())) }

    private func write(uses: [UInt64: Timestamp]) {
        var rest = uses[...]
        do {
            while !rest.isEmpty {
                try index.noteUses(rest.prefix(UseLog.batch).map { (ino: $0.key, time: $0.value) })
                rest = rest.dropFirst(UseLog.batch)
            }
        } catch {
            logger.warning("cannot note when files were used", metadata: ["error": "\(error)"])
        }
    }

    /// Writes down what is kept back for batches. To be called now and then, and before the end.
    package func settle() {
        write(uses: uses.takeIfDue(now: parts.timekeeper.now()))
        finishCloses()
        retryNotes()
        noteOpenWriters()
        refreshIgnoreFiles()
        letGo(of: idle.takeOld(now: parts.timekeeper.now()))
    }
}
