internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Extended attributes. Those set by programs are stored. Those of `ubiquity` are computed, or start an action.
///
/// It holds the number of folder evictions that continue. The façade calls it. It calls the index, `VersionXattrs`, and
/// the engine through `ItemControl` and `TransferStatus`.
final class Xattrs: Room {
    let context: FileSystemContext
    private let versions: VersionXattrs
    private let closes: DelayedCloses
    /// Number of folder evictions that continue although their callers were answered.
    private let folderEvictions = Lock(0)

    init(_ context: FileSystemContext, versions: VersionXattrs, closes: DelayedCloses) {
        self.context = context
        self.versions = versions
        self.closes = closes
    }

    /// Largest value of one attribute in bytes, as in Linux (XATTR_SIZE_MAX).
    private static let maximumValue = 65_536

    func value(of ino: UInt64, name: [UInt8]) throws -> [UInt8] {
        if let node = versionNodes.node(ino) { return try versions.value(of: node, name: name) }
        let (row, _) = try context.row(ino)
        if name.starts(with: StatusAttribute.prefixBytes) {
            if let attribute = StatusAttribute(name: name) {
                if attribute == .published {
                    return Array(String(try index.read { try $0.linkCount(of: row.id) }).utf8)
                }
                if attribute == .container, row.key == .root, let vacancy = context.parts.vacancy {
                    return Array("\(context.parts.container.name) (\(vacancy))".utf8)
                }
                guard attribute == .identityToken else {
                    return try facts(of: row, counting: attribute.countsConflicts).value(of: attribute)
                }
                guard row.key == .root, let token = context.parts.transfers.identityToken else { throw Errno.ENODATA }
                return Array(token.utf8)
            }
            guard name == PackageRules.mark else { throw Errno.ENODATA }
        }
        try checkNamespace(name)
        let list = name.starts(with: Self.userNamespace) ? row.xattrs : row.localXattrs
        guard let found = list.first(where: { $0.name == name }) else {
            // `ls -l` asks every file for the label until it learns that this file system has none.
            throw name == Self.label ? Errno.EOPNOTSUPP : Errno.ENODATA
        }
        return found.value
    }

    /// All names, each followed by a zero byte.
    func names(of ino: UInt64, caller: Caller) throws -> [UInt8] {
        if let node = versionNodes.node(ino) { return versions.names(of: node, caller: caller) }
        let (row, _) = try context.row(ino)
        // Another device may have set names outside "user.". They have no meaning here and cannot be read.
        let synced = row.xattrs.filter { $0.name.starts(with: Self.userNamespace) }
        var names = (synced + row.localXattrs).map(\.name)
        // As on other file systems, programs that may not read these attributes do not see them.
        if caller.uid != 0 { names.removeAll { $0.starts(with: Self.trustedNamespace) } }
        // On Linux only files and folders have user attributes, so other kinds list none.
        let hasStatus = row.kind == .file || row.kind == .directory
        if hasStatus, !CopyTools.isCopying(caller.pid) { names += StatusAttribute.listed.map(\.name) }
        // Another device may have set more names than fit; the kernel gives a program no longer list.
        while names.count > synced.count, names.reduce(0, { $0 + $1.count + 1 }) > Self.maximumValue {
            names.removeLast()
        }
        return names.flatMap { $0 + [0] }
    }

    /// - Parameter counting: whether to count conflicts; for a folder, all conflicts in it.
    private func facts(of found: ItemRow, counting: Bool) throws -> ItemFacts {
        // If the disk is full, the status stays as it was.
        let row = (try? context.finished(found)) ?? found
        guard row.kind != .directory else { return try folderFacts(of: row, counting: counting) }
        let (remote, conflicts) = try index.peek { reader in
            (try reader.remote(id: row.id), counting ? try reader.conflictCount(of: row) : 0)
        }
        return ItemFacts(
            row: row, remote: remote, conflicts: conflicts, transfer: context.parts.transfers.transfer(of: row.key),
            container: context.parts.container)
    }

    private func folderFacts(of row: ItemRow, counting: Bool) throws -> ItemFacts {
        let transfer = context.parts.transfers.transfer(below: row.key)
        // The totals are those of the last commit.
        return try index.read { reader in
            ItemFacts(
                row: row, remote: try reader.remote(id: row.id),
                conflicts: counting ? try reader.conflictCount(of: row) : 0, transfer: transfer,
                container: context.parts.container,
                sums: try reader.sums(below: row.key), isPackage: index.isPackage(row))
        }
    }

    private static let userNamespace = Array("user.".utf8)
    private static let trustedNamespace = Array("trusted.".utf8)
    private static let label = Array("security.selinux".utf8)
    private static let namespaces = [userNamespace, trustedNamespace, Array("security.".utf8)]

    /// Throws for a namespace that is not supported. Access control lists and other "system." attributes are not.
    private func checkNamespace(_ name: [UInt8]) throws {
        guard let namespace = Self.namespaces.first(where: { name.starts(with: $0) }) else { throw Errno.EOPNOTSUPP }
        guard name.count > namespace.count else { throw Errno.EINVAL }
    }

    // MARK: Setting

    /// - Parameter flags: XATTR_CREATE and XATTR_REPLACE of setxattr(2).
    func set(
        of ino: UInt64, name: [UInt8], value: [UInt8], flags: Int32, caller: Caller
    ) throws -> Answer<Void> {
        if let node = versionNodes.node(ino) { return .now(try versions.set(of: node, name: name, value: value)) }
        if name == PackageRules.mark {
            do { try checkMark(of: ino, value) } catch is Errno where CopyTools.isCopying(caller.pid) {
                // A copy tool carried the mark to an item where it has no meaning.
                return .now(())
            }
        } else if name.isOwn {
            return try setOwn(of: ino, name, value, caller)
        }
        try checkNamespace(name)
        guard name.count <= Limits.maximumNameLength else { throw Errno.ERANGE }
        guard value.count <= Self.maximumValue else { throw Errno.E2BIG }
        let mode = try mode(flags, of: ino, name)
        let xattr = Xattr(name: name, value: value)
        do {
            let isGone = try changeOrphan(ino) { row, now in try row.setting(xattr, mode, now: now) }
            if !isGone { try index.setXattr(ino: ino, xattr, mode) }
        } catch let error as UbiquityError { throw error.code == .tooLarge ? Errno.ENOSPC : error }
        if name == Privileges.capability { openNodes.node(ino)?.state.withLock { $0.hasPrivileges = true } }
        return .now(())
    }

    private func mode(_ flags: Int32, of ino: UInt64, _ name: [UInt8]) throws -> ItemIndex.XattrMode {
        switch flags {
        case 0: return .any
        case 1: return .create
        case 2: return .replace
        // Both flags cannot be met: the attribute either exists or does not.
        case 3:
            let row = try context.row(ino).row
            throw (row.xattrs + row.localXattrs).contains { $0.name == name } ? Errno.EEXIST : Errno.ENODATA
        default: throw Errno.EINVAL
        }
    }

    func remove(of ino: UInt64, name: [UInt8], caller: Caller) throws -> Answer<Void> {
        if ControlAttribute(name: name) == .pinned, !isInVersions(ino) { return try removePin(of: ino, caller) }
        return .now(try removeStored(of: ino, name: name, caller: caller))
    }

    private func removeStored(of ino: UInt64, name: [UInt8], caller: Caller) throws {
        guard !isInVersions(ino) else { throw Errno.EPERM }
        if name.isOwn, name != PackageRules.mark {
            if CopyTools.isCopying(caller.pid) { return }
            guard StatusAttribute(name: name) != nil else { throw Errno.ENODATA }
            throw Errno.EPERM
        }
        try checkNamespace(name)
        let isGone = try changeOrphan(ino) { row, now in try row.removingXattr(named: name, now: now) }
        if !isGone { try index.removeXattr(ino: ino, named: name) }
    }

    /// Unpins the item: `setfattr -x user.ubiquity.pinned` means the same as the value 0.
    private func removePin(of ino: UInt64, _ caller: Caller) throws -> Answer<Void> {
        try setOwn(of: ino, ControlAttribute.pinned.name, [UInt8(ascii: "0")], caller)
    }

    /// Changes the recorded row of an item that is deleted and still open.
    /// - Returns: false for any other item. Looks only at the inodes the kernel knows, because nearly all items are not
    ///   deleted.
    private func changeOrphan(_ ino: UInt64, _ change: (ItemRow, Timestamp) throws -> ItemRow) throws -> Bool {
        // A replaced file may still exist under another name.
        guard let row = inodes.orphan(ino), try index.row(ino: ino)?.isDeleted ?? true else { return false }
        try context.requireOpen(row)
        let changed = try change(row, context.parts.timekeeper.now())
        inodes.withNode(ino) { $0.orphan = changed }
        return true
    }

    /// Checks a package mark: "1" marks a folder as a package, "0" as no package.
    private func checkMark(of ino: UInt64, _ value: [UInt8]) throws {
        let row = try context.liveRow(ino)
        guard row.kind == .directory else { throw Errno.ENOTDIR }
        // The container itself cannot be a package.
        guard row.key != .root else { throw Errno.EINVAL }
        _ = try Self.flag(value)
    }

    private func setOwn(of ino: UInt64, _ name: [UInt8], _ value: [UInt8], _ caller: Caller) throws -> Answer<Void> {
        if CopyTools.isCopying(caller.pid) { return .now(()) }
        guard let attribute = ControlAttribute(name: name) else {
            // EPERM for attributes that can be read and not set. Unknown names with the prefix of `ubiquity` are not
            // stored either.
            throw StatusAttribute(name: name) == nil ? Errno.EINVAL : Errno.EPERM
        }
        let row = try context.liveRow(ino), key = row.key
        let control = context.parts.control
        switch attribute {
        case .download:
            try Self.requireWish(value)
            return .later { try await control.requestDownload(key) }
        case .evict:
            try Self.requireWish(value)
            // Evicting a folder walks its contents and checks for each file whether it is open.
            return .later { [self] in
                try await waitUntilClosed(ino)
                try await evictSoon(on: row) { try await control.evict(key) }
            }
        case .resolved:
            guard value == [UInt8(ascii: "1")] else { throw Errno.EINVAL }
            try resolveAll(key)
            return .now(())
        case .pinned:
            let isPinned = try Self.flag(value)
            return .later { try await control.setPinned(key, isPinned) }
        }
    }

    /// Waits for the last close, which the kernel reports a moment after the program's close(2) has returned. Throws
    /// `EBUSY` if the file stays open.
    private func waitUntilClosed(_ ino: UInt64) async throws {
        closes.finish(of: ino)
        for _ in 0..<Self.looksForClose where openNodes.node(ino) != nil {
            try await context.parts.timekeeper.sleep(for: Self.restForClose)
        }
        guard openNodes.node(ino) == nil else { throw Errno.EBUSY }
    }

    /// 20 looks of 10 ms: 200 ms together.
    private static let looksForClose = 20
    private static let restForClose = Duration.milliseconds(10)

    /// How long an eviction of a folder may keep the kernel's lock on it. After that the caller is answered and the
    /// eviction continues.
    private static let folderWaitingTime = Duration.seconds(2)
    /// Folder evictions that may continue at one time; a caller beyond that waits until its own is done.
    private static let maximumFolderEvictions = 8

    private func evictSoon(on row: ItemRow, _ work: @escaping @Sendable () async throws -> Void) async throws {
        let mayGoOn = folderEvictions.withLock { count in
            guard row.kind == .directory, count < Self.maximumFolderEvictions else { return false }
            count += 1
            return true
        }
        guard mayGoOn else { return try await work() }
        let (outcomes, source) = AsyncStream<Result<Void, any Error>?>.makeStream(bufferingPolicy: .bufferingOldest(2))
        let task = Task { [logger, folderEvictions] in
            defer { folderEvictions.withLock { $0 -= 1 } }
            do {
                try await work()
                source.yield(.success(()))
            } catch {
                // The stream has ended if the eviction took longer than its caller waited.
                if case .terminated = source.yield(.failure(error)) {
                    logger.warning(
                        "some items of a folder were not evicted",
                        metadata: ["inode": "\(row.ino)", "reason": "\(error)"])
                }
            }
        }
        let clock = Task { [context] in
            try? await context.parts.timekeeper.sleep(for: Self.folderWaitingTime)
            source.yield(nil)
        }
        defer {
            clock.cancel()
            source.finish()
        }
        try await withTaskCancellationHandler {
            for await outcome in outcomes { return try outcome?.get() ?? () }
            throw CancellationError()
        } onCancel: {
            task.cancel()
        }
    }

    /// Resolves all conflicts of a file or package in favour of its present state.
    private func resolveAll(_ key: ItemKey) throws {
        let row = try index.row(key: key)
        guard let row, row.kind == .file || index.isPackage(row) else { throw Errno.EINVAL }
        // Items in a package may be in conflict by themselves.
        let known = try index.read { reader in
            let items = [row] + (row.kind == .directory ? try reader.itemsInConflict(below: key) : [])
            return try items.map { ($0.key, try reader.conflicts(of: $0.id)) }
        }
        for (key, conflicts) in known where !conflicts.isEmpty {
            try index.decide(conflicts.map { (.resolve, $0.id) }, of: key)
        }
    }

    /// Checks the value of an action: "1", or empty (setfattr without -v). An action cannot be undone by setting
    /// another value.
    private static func requireWish(_ value: [UInt8]) throws {
        guard value.isEmpty || value == [UInt8(ascii: "1")] else { throw Errno.EINVAL }
    }

    /// Parses "1" or "0", the form in which the attributes are read.
    private static func flag(_ value: [UInt8]) throws -> Bool {
        switch value {
        case [UInt8(ascii: "1")]: true
        case [UInt8(ascii: "0")]: false
        default: throw Errno.EINVAL
        }
    }
}

extension [UInt8] {
    /// Whether the name has the prefix of `ubiquity` attributes.
    fileprivate var isOwn: Bool { starts(with: StatusAttribute.prefixBytes) }
}
