package import UbiquityCoordination
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// Every use of an item through the mount is a claim: of a file from its open to its release, of a name while it is
// changed. What has to wait for a client is answered later; no thread that serves the kernel waits.
extension ContainerFileSystem {
    /// An open waits that long for others' claims; then ETIMEDOUT. An interrupted one stops at once.
    private static let openWaitingTime: Duration = .seconds(120)
    /// A change of a name or of attributes waits that long, then EBUSY: the kernel keeps the folder and the file locked
    /// meanwhile, and who has the claim may need just these to finish.
    private static let changeWaitingTime: Duration = .seconds(2)

    // MARK: Files

    /// Opening for reading waits until a placeholder's download has begun; reading waits for its bytes. Opening for
    /// writing waits for the whole content, unless it truncates. Both wait for clients that have the item claimed, or
    /// have to save it first.
    package func open(_ ino: UInt64, flags: OpenFlags, caller: Caller) throws -> Answer<OpenedFile> {
        let body: @Sendable () throws -> Answer<OpenedFile> = { [self] in
            try openUnclaimed(ino, flags: flags, caller: caller)
        }
        guard let coordination = parts.coordination else { return try body() }
        // Who is refused waits for nobody, and nobody has to save first for him.
        if !coordination.isQuiet, try isRefused(ino, flags, caller) { return try body() }
        guard let intent = try intent(toOpen: ino, flags) else {
            // What stays on this device is not claimed; whose doing it is what is written there is told all the same.
            return try body().map { [self] opened in
                if flags.writes, coordination.hasPresenters { note(coordination.doer(caller.pid), opened.handle) }
                return opened
            }
        }
        // O_NONBLOCK changes nothing on a regular file: the program waits for the claim as for a download.
        return try claimed(
            [intent], caller.pid, Self.openWaitingTime, mayWait: true, keeping: { $0.handle }, body)
    }

    /// Whether a background reader opens what is not here and would have to come.
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
            // A version counts as content of the file whose it is.
            guard let key = node.item, let row = try index.row(key: key) else { return nil }
            return ClaimIntent(row.claimTarget, .reading(.withoutChanges))
        }
        guard let row = try index.row(ino: ino), row.kind == .file, !row.isExcluded else { return nil }
        if !flags.writes, !flags.contains(.truncate) { return ClaimIntent(row.claimTarget, .reading([])) }
        return ClaimIntent(row.claimTarget, .writing(flags.contains(.truncate) ? nil : .forMerging))
    }

    /// The kernel drops a handle. The last writer's is when the index learns what was written.
    package func release(_ handle: UInt64) {
        let pass = passes.withLock { $0.removeValue(forKey: handle) }
        let isPutOff = pass?.isReader != true && putOff(handle)
        guard let pass else {
            if !isPutOff { releaseUnclaimed(handle) }
            return
        }
        if isPutOff {
            // Nobody waits for the claim.
        } else if pass.isReader {
            releaseUnclaimed(handle)
        } else {
            doing(parts.coordination?.known(pass.doer)) { releaseUnclaimed(handle) }
        }
        parts.coordination?.leave(pass)
    }

    /// Makes a file and opens it.
    package func createClaimed(
        parent: UInt64, name: [UInt8], mode: UInt32, flags: OpenFlags, caller: Caller
    ) throws -> Answer<CreatedFile> {
        try claimedChange([.name(parent, name)], caller) { [self] in
            let made = try create(parent: parent, name: name, mode: mode, flags: flags, caller: caller)
            // One that was there by then has been opened, and claimed.
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
    /// - Parameter caller: nil if nobody knows who it is.
    package func removeAny(
        parent: UInt64, name: [UInt8], directory: Bool, caller: Caller? = nil
    ) throws -> Answer<Void> {
        // A folder that is removed is empty: what is in it need not be waited for.
        try claimedChange([.item(parent, name, .writing(.forDeleting), withContents: false)], caller) { [self] in
            try removeAnyUnclaimed(parent: parent, name: name, directory: directory, caller: caller)
        }
    }

    /// `rename`, also of versions: a version that is moved becomes the content of the file it is moved to, and is
    /// resolved.
    package func renameAny(
        parent: UInt64, name: [UInt8], newParent: UInt64, newName: [UInt8], flags: UInt32, caller: Caller? = nil
    ) throws -> Answer<Void> {
        // A document is often saved anew and renamed over the old one: that is a change of it, and no replacement.
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

    /// A truncation by name, and changes of rights and owner. (Times are set by everyone and mean nothing; an open
    /// file is claimed already.)
    package func setAttributes(
        of ino: UInt64, _ changes: AttributeChanges, handle: UInt64? = nil, caller: Caller
    ) throws -> Answer<NodeAttributes> {
        let body: @Sendable () throws -> Answer<NodeAttributes> = { [self] in
            try setAttributesUnclaimed(of: ino, changes, handle: handle, caller: caller)
        }
        let isOfContent = changes.size != nil
        guard handle == nil, isOfContent || changes.mode != nil || changes.uid != nil || changes.gid != nil else {
            // What is done through an open file is its opener's doing, whoever carries it out.
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
        // What acts asks for itself whoever it concerns; a decision about a version is a write like others.
        if ControlAttribute(name: name) != nil, !isInVersions(ino) { return try body() }
        return try claimedChange([.inode(ino, .writing(.contentIndependentMetadataOnly))], caller, body)
    }

    package func removeXattrClaimed(of ino: UInt64, name: [UInt8], caller: Caller) throws -> Answer<Void> {
        // As with setting it: an attribute that acts asks for its own claims.
        if ControlAttribute(name: name) == .pinned, !isInVersions(ino) { return try removePin(of: ino, caller) }
        return try claimedChange([.inode(ino, .writing(.contentIndependentMetadataOnly))], caller) { [self] in
            .now(try removeXattr(of: ino, name: name, caller: caller))
        }
    }

    /// What a change is of.
    private enum NameChange {
        /// A name that is to be taken.
        case name(UInt64, [UInt8])
        /// The item of that name, or the name if it is free.
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
            if let node = versionNodes.node(parent) { return try intent(toDecideAbout: node) }
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

    /// Versions count as content of their file: to remove one, to move it out or to resolve it writes the file, which
    /// keeps the content that it has.
    private func intent(toDecideAbout node: VersionNodes.Node) throws -> ClaimIntent? {
        switch node {
        case .folder: return nil
        case .file(let key), .version(_, let key), .member(_, _, let key):
            return try index.row(key: key).map {
                ClaimIntent($0.claimTarget, .writing(.contentIndependentMetadataOnly))
            }
        }
    }

    // MARK: Claims

    /// While nobody takes part, changes of names are not even looked at.
    private func claimedChange<Value: Sendable>(
        _ changes: [NameChange], _ caller: Caller?, _ body: @escaping @Sendable () throws -> Answer<Value>
    ) throws -> Answer<Value> {
        guard let coordination = parts.coordination, !coordination.isQuiet else { return try body() }
        let intents = try changes.compactMap { try intent($0) }
        // What stays on this device is not claimed; whose doing it is is told all the same.
        guard !intents.isEmpty else { return try doing(caller.map { coordination.doer($0.pid) }, body) }
        return try claimed(
            intents, caller?.pid ?? 0, Self.changeWaitingTime, mayWait: true, keeping: { _ in nil }, body)
    }

    /// Runs `body` under a claim, now or when it is granted.
    /// - Parameter keeping: The handle with which the claim goes on; nil if it ends with `body`.
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

    /// Whose doing it is what is written through the handle.
    private func note(_ doer: Doer, _ handle: UInt64) {
        guard let file = try? files.object(handle), file.flags.writes else { return }
        file.node.state.withLock { state in
            let others = state.writers > 1 ? state.doer : nil
            state.doer = others?.joined(by: doer) ?? doer
        }
    }

    /// Lets those who present what changes know whose doing it is.
    func doing<Result>(_ doer: Doer?, _ body: () throws -> Result) rethrows -> Result {
        guard let doer, parts.coordination?.hasPresenters == true else { return try body() }
        return try Doer.$current.withValue(doer, operation: body)
    }
}

extension ItemRow {
    /// What a claim on it is about.
    package var claimTarget: ClaimTarget {
        ClaimTarget(
            item: key, entry: entry.map { ClaimTarget.Entry(parent: $0.parent, name: $0.name) },
            isFolder: kind == .directory)
    }
}

extension ClaimFailure {
    /// What the program is told.
    /// - Parameter waited: when its time was over.
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
