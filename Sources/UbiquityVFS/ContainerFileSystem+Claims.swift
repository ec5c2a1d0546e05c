package import UbiquityCoordination
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Every use of an item through the mount is a claim: a file's from open to release, a name's while it changes. An
// operation that must wait for a client is answered later; no thread that serves the kernel waits.
extension ContainerFileSystem {
    /// Limit for an open that waits for other claims; then ETIMEDOUT. An interrupted open stops at once.
    private static let openWaitingTime: Duration = .seconds(120)
    /// Limit for a change of a name or of attributes; then EBUSY. The kernel keeps the folder and the file locked
    /// meanwhile, and the holder of the claim may need them to finish.
    private static let changeWaitingTime: Duration = .seconds(2)

    // MARK: Files

    /// Opens a file. Opening for reading waits until a placeholder's download has begun; reading waits for its bytes.
    /// Opening for writing waits for the complete content, unless it truncates. Both wait for clients that have the
    /// item claimed or must save it first.
    package func open(_ ino: UInt64, flags: OpenFlags, caller: Caller) throws -> Answer<OpenedFile> {
        let body: @Sendable () throws -> Answer<OpenedFile> = { [self] in
            try openUnclaimed(ino, flags: flags, caller: caller)
        }
        guard let coordination = parts.coordination else { return try body() }
        // A refused open waits for no claim, and no client has to save for it.
        if !coordination.isQuiet, try isRefused(ino, flags, caller) { return try body() }
        guard let intent = try intent(toOpen: ino, flags) else {
            // Excluded files are not claimed, but the author of writes to them is recorded.
            return try body().map { [self] opened in
                if flags.writes, coordination.hasPresenters { note(coordination.doer(caller.pid), opened.handle) }
                return opened
            }
        }
        // O_NONBLOCK does not affect claims on regular files: the program waits as it does for a download.
        return try claimed(
            [intent], caller.pid, Self.openWaitingTime, mayWait: true, keeping: { $0.handle }, body)
    }

    /// Whether a background reader opens a file whose content is not on this device.
    private func isRefused(_ ino: UInt64, _ flags: OpenFlags, _ caller: Caller) throws -> Bool {
        guard !flags.contains(.truncate) else { return false }
        if isInVersions(ino) { return isSniffing(flags, caller) || parts.backgroundReaders.isOne(caller.pid) }
        guard let row = try index.row(ino: ino), row.contentState != .complete, row.size > 0,
            isSniffing(flags, caller) || parts.backgroundReaders.isOne(caller.pid)
        else { return false }
        return !hasJustCome(row)
    }

    private func intent(toOpen ino: UInt64, _ flags: OpenFlags) throws -> ClaimIntent? {
        if let node = versionNodes.node(ino) {
            // A version counts as content of its file.
            guard let key = node.item, let row = try index.row(key: key) else { return nil }
            return ClaimIntent(row.claimTarget, .reading(.withoutChanges))
        }
        guard let row = try index.row(ino: ino), row.kind == .file, !row.isExcluded else { return nil }
        if !flags.writes, !flags.contains(.truncate) { return ClaimIntent(row.claimTarget, .reading([])) }
        return ClaimIntent(row.claimTarget, .writing(flags.contains(.truncate) ? nil : .forMerging))
    }

    /// Releases a handle that the kernel has closed. After the last writer's release the index records the changes.
    package func release(_ handle: UInt64) {
        let pass = passes.withLock { $0.removeValue(forKey: handle) }
        let isPutOff = pass?.isReader != true && putOff(handle)
        guard let pass else {
            if !isPutOff { releaseUnclaimed(handle) }
            return
        }
        if isPutOff {
            // No program waits for the claim.
        } else if pass.isReader {
            releaseUnclaimed(handle)
        } else {
            doing(parts.coordination?.known(pass.doer)) { releaseUnclaimed(handle) }
        }
        parts.coordination?.leave(pass)
    }

    /// Creates a file and opens it.
    package func createClaimed(
        parent: UInt64, name: [UInt8], mode: UInt32, flags: OpenFlags, caller: Caller
    ) throws -> Answer<CreatedFile> {
        try claimedChange([.name(parent, name)], caller) { [self] in
            let made = try create(parent: parent, name: name, mode: mode, flags: flags, caller: caller)
            // A file that existed by then has been opened and claimed already.
            guard let coordination = parts.coordination, passes.withLock({ $0[made.opened.handle] == nil }),
                let row = try index.row(ino: made.attributes.ino)
            else { return .now(made) }
            if row.isExcluded {
                note(coordination.doer(caller.pid), made.opened.handle)
            } else {
                let access = flags.writes ? Access.writing(nil) : .reading([])
                let pass = coordination.hold(ClaimIntent(row.claimTarget, access), process: caller.pid)
                keep(pass, made.opened.handle)
            }
            return .now(made)
        }
    }

    // MARK: Names and attributes

    package func makeDirectoryClaimed(
        parent: UInt64, name: [UInt8], mode: UInt32, caller: Caller
    ) throws -> Answer<NodeAttributes> {
        try claimedChange([.name(parent, name)], caller) { [self] in
            .now(try makeDirectory(parent: parent, name: name, mode: mode, caller: caller))
        }
    }

    package func makeSymlinkClaimed(
        parent: UInt64, name: [UInt8], target: [UInt8], caller: Caller
    ) throws -> Answer<NodeAttributes> {
        try claimedChange([.name(parent, name)], caller) { [self] in
            .now(try makeSymlink(parent: parent, name: name, target: target, caller: caller))
        }
    }

    package func makeNodeClaimed(
        parent: UInt64, name: [UInt8], mode: UInt32, device: UInt32, caller: Caller
    ) throws -> Answer<NodeAttributes> {
        try claimedChange([.name(parent, name)], caller) { [self] in
            .now(try makeNode(parent: parent, name: name, mode: mode, device: device, caller: caller))
        }
    }

    package func linkClaimed(
        _ ino: UInt64, newParent: UInt64, newName: [UInt8], caller: Caller
    ) throws -> Answer<NodeAttributes> {
        try claimedChange([.name(newParent, newName)], caller) { [self] in
            .now(try link(ino, newParent: newParent, newName: newName))
        }
    }

    /// `unlink` and `removeDirectory`, also of versions.
    /// - Parameter caller: nil if unknown.
    package func removeAny(
        parent: UInt64, name: [UInt8], directory: Bool, caller: Caller? = nil
    ) throws -> Answer<Void> {
        // A removed folder is empty, so claims on its contents do not matter.
        try claimedChange([.item(parent, name, .writing(.forDeleting), withContents: false)], caller) { [self] in
            try removeAnyUnclaimed(parent: parent, name: name, directory: directory, caller: caller)
        }
    }

    /// `rename`, also of versions: a version that is moved over a file becomes that file's content and is resolved.
    package func renameAny(
        parent: UInt64, name: [UInt8], newParent: UInt64, newName: [UInt8], flags: UInt32, caller: Caller? = nil
    ) throws -> Answer<Void> {
        // Programs often save a document to a new file and rename it over the old one. That counts as a change of the
        // document, not as a replacement.
        let isExchange = flags == 2
        let target = Access.writing(isExchange ? .forMoving : nil)
        let changes: [NameChange] = [
            .item(parent, name, .writing(.forMoving), withContents: true),
            .item(newParent, newName, target, withContents: isExchange),
        ]
        return try claimedChange(changes, caller) { [self] in
            try renameAnyUnclaimed(
                parent: parent, name: name, newParent: newParent, newName: newName, flags: flags, caller: caller)
        }
    }

    /// Sets attributes. A truncation by name and a change of mode or owner take a claim. Setting times takes none:
    /// every program does it, and an open file is claimed already.
    package func setAttributes(
        of ino: UInt64, _ changes: AttributeChanges, handle: UInt64? = nil, caller: Caller
    ) throws -> Answer<NodeAttributes> {
        let body: @Sendable () throws -> Answer<NodeAttributes> = { [self] in
            try setAttributesUnclaimed(of: ino, changes, handle: handle, caller: caller)
        }
        let isOfContent = changes.size != nil
        guard handle == nil, isOfContent || changes.mode != nil || changes.uid != nil || changes.gid != nil else {
            // A change through an open file belongs to the program that opened it, whichever process makes the call.
            let pass = handle.flatMap { handle in passes.withLock { $0[handle] } }
            guard let coordination = parts.coordination else { return try body() }
            return try doing(pass?.doer ?? coordination.doer(caller.pid), body)
        }
        return try claimedChange(
            [.inode(ino, .writing(isOfContent ? nil : .contentIndependentMetadataOnly))], caller, body)
    }

    package func setXattr(
        of ino: UInt64, name: [UInt8], value: [UInt8], flags: Int32, caller: Caller
    ) throws -> Answer<Void> {
        let body: @Sendable () throws -> Answer<Void> = { [self] in
            try setXattrUnclaimed(of: ino, name: name, value: value, flags: flags, caller: caller)
        }
        // A control attribute asks for its own claims; a decision about a version is an ordinary write.
        if ControlAttribute(name: name) != nil, !isInVersions(ino) { return try body() }
        return try claimedChange([.inode(ino, .writing(.contentIndependentMetadataOnly))], caller, body)
    }

    package func removeXattrClaimed(of ino: UInt64, name: [UInt8], caller: Caller) throws -> Answer<Void> {
        // As in setting it: a control attribute asks for its own claims.
        if ControlAttribute(name: name) == .pinned, !isInVersions(ino) { return try removePin(of: ino, caller) }
        return try claimedChange([.inode(ino, .writing(.contentIndependentMetadataOnly))], caller) { [self] in
            .now(try removeXattr(of: ino, name: name, caller: caller))
        }
    }

    /// The subject of a change.
    private enum NameChange {
        /// A name that the change will occupy.
        case name(UInt64, [UInt8])
        /// The item at that name, or the name if it is free.
        case item(UInt64, [UInt8], Access, withContents: Bool)
        case inode(UInt64, Access)
    }

    private func intent(_ change: NameChange) throws -> ClaimIntent? {
        switch change {
        case .name(let parent, let name): return try intent(.item(parent, name, .writing(nil), withContents: false))
        case .inode(let ino, let access):
            if let node = versionNodes.node(ino) { return try intent(toDecideAbout: node) }
            guard let row = try index.row(ino: ino), !row.isExcluded else { return nil }
            return ClaimIntent(row.claimTarget, access)
        case .item(let parent, let name, let access, let withContents):
            if let node = try versionNodes.node(parent) ?? visibleConflict(named: name, in: parent)?.node {
                return try intent(toDecideAbout: node)
            }
            guard let name = try? ItemName(name), let folder = try index.row(ino: parent) else {
                return nil
            }
            guard let row = try index.child(of: folder.key, named: name) else {
                return ClaimIntent(ClaimTarget(name: name, in: folder.key), access)
            }
            guard !row.isExcluded else { return nil }
            var target = row.claimTarget
            target.isFolder = target.isFolder && withContents
            return ClaimIntent(target, access)
        }
    }

    /// The claim needed to decide about a version. Versions count as content of their file: removing, moving out or
    /// resolving one writes the file, which keeps its content.
    private func intent(toDecideAbout node: VersionNodes.Node) throws -> ClaimIntent? {
        switch node {
        case .folder: return nil
        case .file(let key), .version(_, let key, _), .member(_, _, let key, _):
            return try index.row(key: key).map {
                ClaimIntent($0.claimTarget, .writing(.contentIndependentMetadataOnly))
            }
        }
    }

    // MARK: Claims

    /// Runs `body` under claims on the changed names. With no clients and presenters connected it skips the lookup of
    /// names.
    private func claimedChange<Value: Sendable>(
        _ changes: [NameChange], _ caller: Caller?, _ body: @escaping @Sendable () throws -> Answer<Value>
    ) throws -> Answer<Value> {
        guard let coordination = parts.coordination, !coordination.isQuiet else { return try body() }
        let intents = try changes.compactMap { try intent($0) }
        // Excluded items are not claimed, but the author of the change is recorded.
        guard !intents.isEmpty else { return try doing(caller.map { coordination.doer($0.pid) }, body) }
        return try claimed(
            intents, caller?.pid ?? 0, Self.changeWaitingTime, mayWait: true, keeping: { _ in nil }, body)
    }

    /// Runs `body` under a claim, now or when it is granted.
    /// - Parameter keeping: the handle that keeps the claim; nil if the claim ends with `body`.
    private func claimed<Value: Sendable>(
        _ intents: [ClaimIntent], _ process: Int32, _ waitingTime: Duration, mayWait: Bool,
        keeping: @escaping @Sendable (Value) -> UInt64?, _ body: @escaping @Sendable () throws -> Answer<Value>
    ) throws -> Answer<Value> {
        guard let coordination = parts.coordination else { return try body() }
        let entrance: ProgramEntrance
        do {
            entrance = try coordination.enter(intents, process: process, waitingTime: waitingTime, mayWait: mayWait)
        } catch {
            throw error.errno(waited: waitingTime == Self.changeWaitingTime ? .EBUSY : .ETIMEDOUT)
        }
        switch entrance {
        case .now(let pass): return try run(under: pass, keeping, body)
        case .later(let wait):
            return .later { [self] in
                do {
                    return try await run(under: try await wait(), keeping, body).value
                } catch let failure as ClaimFailure {
                    throw failure.errno(waited: waitingTime == Self.changeWaitingTime ? .EBUSY : .ETIMEDOUT)
                }
            }
        }
    }

    private func run<Value: Sendable>(
        under pass: ProgramPass, _ keeping: @escaping @Sendable (Value) -> UInt64?,
        _ body: @Sendable () throws -> Answer<Value>
    ) throws -> Answer<Value> {
        do {
            switch try doing(pass.doer, body) {
            case .now(let value):
                keep(pass, keeping(value))
                return .now(value)
            case .later(let work):
                return .later { [self] in
                    do {
                        let value = try await Doer.$current.withValue(pass.doer) { try await work() }
                        keep(pass, keeping(value))
                        return value
                    } catch {
                        parts.coordination?.leave(pass)
                        throw error
                    }
                }
            }
        } catch {
            parts.coordination?.leave(pass)
            throw error
        }
    }

    private func keep(_ pass: ProgramPass, _ handle: UInt64?) {
        guard let handle else {
            parts.coordination?.leave(pass)
            return
        }
        passes.withLock { $0[handle] = pass }
        note(pass.doer, handle)
    }

    /// Records the author of writes through the handle.
    private func note(_ doer: Doer, _ handle: UInt64) {
        guard let file = try? files.object(handle), file.flags.writes else { return }
        file.node.state.withLock { state in
            let others = state.writers > 1 ? state.doer : nil
            state.doer = others?.joined(by: doer) ?? doer
        }
    }

    /// Runs `body` and attributes its changes to `doer` in notifications to presenters.
    func doing<Result>(_ doer: Doer?, _ body: () throws -> Result) rethrows -> Result {
        guard let doer, parts.coordination?.hasPresenters == true else { return try body() }
        return try Doer.$current.withValue(doer, operation: body)
    }
}

extension ItemRow {
    /// The target of a claim on the item.
    package var claimTarget: ClaimTarget {
        ClaimTarget(
            item: key, entry: entry.map { ClaimTarget.Entry(parent: $0.parent, name: $0.name) },
            isFolder: kind == .directory)
    }
}

extension ClaimFailure {
    /// The error the program gets.
    /// - Parameter waited: the error after a timeout.
    func errno(waited: Errno) -> Errno {
        switch self {
        case .deadlock: .EDEADLK
        case .timedOut: waited
        case .cancelled: .EINTR
        case .refused, .tooMany, .unknownClient: .EBUSY
        case .wouldWait: .EAGAIN
        }
    }
}
