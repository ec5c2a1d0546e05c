internal import UbiquityCoordination
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The claims of programs: which claim a call needs, and the claims of open files.
///
/// `ClaimedFileSystem` calls it. It calls `Coordination`, and looks up items in the index and in the versions folders.
final class ProgramClaims: Sendable {
    /// Limit for an open that waits for other claims; then ETIMEDOUT. An interrupted open stops at once.
    private static let openWaitingTime: Duration = .seconds(120)
    /// Limit for a change of a name or of attributes; then EBUSY. The kernel keeps the folder and the file locked
    /// meanwhile, and the holder of the claim may need them to finish.
    private static let changeWaitingTime: Duration = .seconds(2)

    private let rooms: FileSystemRooms
    /// Arbitrates between programs and clients; nil where there are no clients.
    let coordination: Coordination?
    /// The claims of open files, by handle.
    private let passes = Lock<[UInt64: ProgramPass]>([:])

    private var index: ItemIndex { rooms.context.parts.index }

    init(_ rooms: FileSystemRooms) {
        self.rooms = rooms
        coordination = rooms.context.parts.coordination
    }

    // MARK: Intents

    /// The claim that an open needs; nil if it needs none.
    func intent(toOpen ino: UInt64, _ flags: OpenFlags) throws -> ClaimIntent? {
        if let node = rooms.context.versionNodes.node(ino) {
            // A version counts as content of its file.
            guard let key = node.item, let row = try index.row(key: key) else { return nil }
            return ClaimIntent(row.claimTarget, .reading(.withoutChanges))
        }
        guard let row = try index.row(ino: ino), row.kind == .file, !row.isExcluded else { return nil }
        if !flags.writes, !flags.contains(.truncate) { return ClaimIntent(row.claimTarget, .reading([])) }
        return ClaimIntent(row.claimTarget, .writing(flags.contains(.truncate) ? nil : .forMerging))
    }

    /// The subject of a change.
    enum NameChange {
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
            if let node = rooms.context.versionNodes.node(ino) { return try intent(toDecideAbout: node) }
            guard let row = try index.row(ino: ino), !row.isExcluded else { return nil }
            return ClaimIntent(row.claimTarget, access)
        case .item(let parent, let name, let access, let withContents):
            let node = try rooms.context.versionNodes.node(parent)
                ?? rooms.visibleConflicts.entry(named: name, in: parent)?.node
            if let node {
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

    /// Runs `body`, which opens a file, under a claim that its handle keeps.
    func opening<Value: Sendable>(
        _ intent: ClaimIntent, _ caller: Caller, keeping: @escaping @Sendable (Value) -> UInt64?,
        _ body: @escaping @Sendable () throws -> Answer<Value>
    ) throws -> Answer<Value> {
        try claimed([intent], caller.pid, Self.openWaitingTime, keeping: keeping, body)
    }

    /// Gives a new file's handle its claim. A file that existed by then has been opened and claimed already.
    func hold(_ made: CreatedFile, _ flags: OpenFlags, _ caller: Caller) throws {
        guard let coordination, passes.withLock({ $0[made.opened.handle] == nil }),
            let row = try index.row(ino: made.attributes.ino)
        else { return }
        if row.isExcluded { return rooms.openFiles.setAuthor(coordination.doer(caller.pid), made.opened.handle) }
        let access = flags.writes ? Access.writing(nil) : .reading([])
        keep(coordination.hold(ClaimIntent(row.claimTarget, access), process: caller.pid), made.opened.handle)
    }

    /// Runs `body`, which releases the handle, and ends the handle's claim.
    func release(_ handle: UInt64, _ body: () -> Void) {
        guard let coordination, let pass = passes.withLock({ $0.removeValue(forKey: handle) }) else { return body() }
        // A reader makes no changes that need an author, and without presenters nobody asks for one.
        if pass.isReader || !coordination.hasPresenters {
            body()
        } else {
            self.coordination.attributing(to: coordination.known(pass.doer), body)
        }
        coordination.leave(pass)
    }

    /// Runs `body` for the program that opened the handle, or for the caller if there is no handle.
    func attributing<Result>(
        toHolderOf handle: UInt64?, _ caller: Caller, _ body: () throws -> Result
    ) rethrows -> Result {
        guard let coordination else { return try body() }
        let pass = handle.flatMap { handle in passes.withLock { $0[handle] } }
        return try self.coordination.attributing(to: pass?.doer ?? coordination.doer(caller.pid), body)
    }

    /// Runs `body` under claims on the changed names. With no clients and presenters connected it skips the lookup of
    /// names.
    func change<Value: Sendable>(
        _ changes: [NameChange], _ caller: Caller?, _ body: @escaping @Sendable () throws -> Answer<Value>
    ) throws -> Answer<Value> {
        guard let coordination, !coordination.isQuiet else { return try body() }
        let intents = try changes.compactMap { try intent($0) }
        // Excluded items are not claimed, but the author of the change is recorded.
        guard !intents.isEmpty else {
            return try self.coordination.attributing(to: caller.map { coordination.doer($0.pid) }, body)
        }
        return try claimed(intents, caller?.pid ?? 0, Self.changeWaitingTime, keeping: { _ in nil }, body)
    }

    /// Runs `body` under a claim, now or when it is granted.
    /// - Parameter keeping: the handle that keeps the claim; nil if the claim ends with `body`.
    private func claimed<Value: Sendable>(
        _ intents: [ClaimIntent], _ process: Int32, _ waitingTime: Duration,
        keeping: @escaping @Sendable (Value) -> UInt64?, _ body: @escaping @Sendable () throws -> Answer<Value>
    ) throws -> Answer<Value> {
        guard let coordination else { return try body() }
        let entrance: ProgramEntrance
        do {
            entrance = try coordination.enter(intents, process: process, waitingTime: waitingTime, mayWait: true)
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
            switch try coordination.attributing(to: pass.doer, body) {
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
                        coordination?.leave(pass)
                        throw error
                    }
                }
            }
        } catch {
            coordination?.leave(pass)
            throw error
        }
    }

    private func keep(_ pass: ProgramPass, _ handle: UInt64?) {
        guard let handle else {
            coordination?.leave(pass)
            return
        }
        passes.withLock { $0[handle] = pass }
        rooms.openFiles.setAuthor(pass.doer, handle)
    }
}

extension ClaimFailure {
    /// The error the program gets.
    /// - Parameter waited: the error after a timeout.
    fileprivate func errno(waited: Errno) -> Errno {
        switch self {
        case .deadlock: .EDEADLK
        case .timedOut: waited
        case .cancelled: .EINTR
        case .refused, .tooMany, .unknownClient: .EBUSY
        case .wouldWait: .EAGAIN
        }
    }
}
