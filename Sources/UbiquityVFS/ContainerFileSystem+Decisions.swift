internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

// What is removed from a versions folder, or moved out of it, is decided about.
extension ContainerFileSystem {
    func removeAnyUnclaimed(
        parent: UInt64, name: [UInt8], directory: Bool, caller: Caller? = nil
    ) throws -> Answer<Void> {
        switch versionNodes.node(parent) {
        case nil: return .now(try remove(parent, name, directory: directory, caller))
        case .version, .member: return try removeMember(named: try ItemName.checked(name), in: parent, directory)
        case .folder(let folder):
            // `rm -r` of a file's versions ends with their folder, which is gone when they are.
            guard directory, let row = try index.child(of: folder, named: try ItemName.checked(name)) else {
                throw Errno.EPERM
            }
            return .later { [self] in
                guard try await parts.versions.otherVersions(of: row.id).isEmpty else { throw Errno.ENOTEMPTY }
            }
        case .file(let key):
            let isPackage = try index.row(key: key)?.kind == .directory
            guard directory == isPackage else { throw directory ? Errno.ENOTDIR : Errno.EISDIR }
            let name = try ItemName.checked(name)
            return .later { [self] in
                guard let version = try await version(named: name, of: key) else { throw Errno.ENOENT }
                // Only the cloud's retention erases an earlier version: `rm -r` would erase it on all devices.
                guard version.kind == .conflict else { throw Errno.EPERM }
                if isPackage { try await requireEmptied(version, of: key) }
                try index.decide([(.resolve, version.id)], of: key)
                if let caller { emptiedVersions.note(key, by: caller.pid, now: parts.timekeeper.uptime()) }
            }
        }
    }

    func renameAnyUnclaimed(
        parent: UInt64, name: [UInt8], newParent: UInt64, newName: [UInt8], flags: UInt32, caller: Caller? = nil
    ) throws -> Answer<Void> {
        guard let node = versionNodes.node(parent) else {
            guard !isInVersions(newParent) else { throw Errno.EPERM }
            return .now(
                try rename(
                    parent: parent, name: name, newParent: newParent, newName: newName, flags: flags, caller: caller))
        }
        guard !isInVersions(newParent), flags <= 1 else { throw Errno.EPERM }
        let key: ItemKey
        switch node {
        case .file(let item): key = item
        // `mv` may try each member of a package after the package.
        case .version, .member: throw Errno.EXDEV
        case .folder: throw Errno.EPERM
        }
        // `mv` copies it then, member by member, and takes it away: that is what moving it means.
        guard try index.row(key: key)?.kind == .file else { throw Errno.EXDEV }
        let name = try ItemName.checked(name), newName = try checkedForMaking(newName, in: newParent)
        return .later { [self] in
            guard let version = try await version(named: name, of: key) else { throw Errno.ENOENT }
            let place = VersionPlace(parent: newParent, name: newName, isExclusive: flags == 1)
            try await move(version, of: key, to: place)
        }
    }

    /// So long a version's content may take to come while its name is moved to a free one; then EXDEV.
    private static let moveWaitingTime = Duration.seconds(2)

    /// Nil if it takes longer to come: the kernel keeps both folders from everybody while a name is moved. `mv` then
    /// copies it, which waits for nobody's folder, and takes it away; and that goes on with what has come.
    private func copySoon(_ version: RemoteVersion) async throws -> ContentID? {
        try await withThrowingTaskGroup(of: ContentID?.self) { [parts] group in
            group.addTask { try await parts.versions.copy(version) }
            group.addTask {
                try await parts.timekeeper.sleep(for: Self.moveWaitingTime)
                return nil
            }
            let first = await group.nextResult()
            group.cancelAll()
            if case .success(.some(let content)) = first { return content }
            // It may have come in that very moment, or be copied to its end: that cannot be stopped.
            var copied: ContentID?
            while let last = await group.nextResult() {
                if case .success(.some(let content)) = last { copied = content }
            }
            guard case .failure(let failure) = first else { return copied }
            if let copied { drop(copied) }
            throw failure
        }
    }

    private func move(_ version: RemoteVersion, of key: ItemKey, to place: VersionPlace) async throws {
        let node = VersionNodes.Node.version(version.id, of: key)
        let ino = try versionNodes.look(up: node, version, in: inodes) { UInt64(try index.newContentNumber()) }
        defer { forget(ino, 1) }
        // `mv` takes a file of that name away before it copies, and with it the versions: there it is waited for.
        let isTaken = try index.row(ino: place.parent).flatMap { try index.child(of: $0.key, named: place.name) } != nil
        let copied = isTaken ? try await parts.versions.copy(version) : try await copySoon(version)
        guard let content = copied else { throw Errno.EXDEV }
        do {
            // Its content has to be on the disk before the index says so, and before the other's goes.
            try contents.noteReplacement(content)
            let replaced = try index.place(version, of: key, content: content, ino: ino, at: place)
            if let replaced { drop(replaced) }
        } catch {
            drop(content)
            throw error
        }
        versionNodes.release(ino)
        inodes.withNode(ino) { $0.pages = nil }
        kernel.invalidateAttributes(ino: ino)
    }

    // MARK: Attributes

    func versionXattr(of node: VersionNodes.Node, name: [UInt8]) throws -> [UInt8] {
        if case .member = node {
            guard let found = memberXattrs(of: node).first(where: { $0.name == name }) else { throw Errno.ENODATA }
            return found.value
        }
        let prefix = Array(StatusAttribute.prefix.utf8)
        guard case .version(let id, let key) = node, name.starts(with: prefix),
            let version = versionNodes.version(id), let row = try index.row(key: key)
        else { throw Errno.ENODATA }
        let text: String
        switch VersionAttribute(rawValue: String(decoding: name.dropFirst(prefix.count), as: UTF8.self)) {
        case .displayName: text = version.savedName.description
        case .savingDevice: text = version.content.deviceName
        case .isConflict: text = version.kind == .conflict ? "1" : "0"
        // A resolved conflict leaves the folder.
        case .isResolved: text = "0"
        case .versionID: text = id.description
        case .itemID: text = row.id.description
        case .downloadingError:
            text = version.content.isAvailable ? "" : "still on its way from \(version.content.deviceName)"
        case nil: throw Errno.ENODATA
        }
        return Array(text.utf8)
    }

    func versionXattrNames(of node: VersionNodes.Node, caller: Caller) -> [UInt8] {
        if case .member = node { return memberXattrs(of: node).flatMap { $0.name + [0] } }
        guard case .version = node, !CopyTools.isCopying(caller.pid) else { return [] }
        return VersionAttribute.allCases.flatMap { Array((StatusAttribute.prefix + $0.rawValue).utf8) + [0] }
    }

    /// What programs had set of it in that state of its package.
    private func memberXattrs(of node: VersionNodes.Node) -> [Xattr] {
        // The kernel acts on `security.*`, for example on file capabilities: another device must not set them here.
        (versionNodes.member(node)?.xattrs ?? []).filter { !$0.name.starts(with: Self.securityPrefix) }
    }

    private static let securityPrefix = Array("security.".utf8)

    /// `resolved` is all that can be set.
    func setVersionXattr(of node: VersionNodes.Node, name: [UInt8], value: [UInt8]) throws {
        guard case .version(let id, let key) = node, ControlAttribute(name: name) == .resolved else {
            throw Errno.EPERM
        }
        guard let version = versionNodes.version(id) else { throw Errno.ESTALE }
        guard version.kind == .conflict, value == [UInt8(ascii: "1")] else { throw Errno.EINVAL }
        try index.decide([(.resolve, id)], of: key)
    }
}
