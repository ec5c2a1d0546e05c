internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Decisions about versions: removing one from a versions folder, or moving one out.
///
/// It has no state of its own. The façade calls it for every removal and rename. It passes those that concern no
/// version to `Namespace`. It calls `VersionsFolder`, `PackageVersions`, the index and the `VersionSource`.
final class VersionDecisions: Room {
    let context: FileSystemContext
    private let namespace: Namespace
    private let versions: VersionsFolder
    private let packages: PackageVersions
    private let visibleConflicts: VisibleConflicts

    init(
        _ context: FileSystemContext, namespace: Namespace, versions: VersionsFolder, packages: PackageVersions,
        visibleConflicts: VisibleConflicts
    ) {
        self.context = context
        self.namespace = namespace
        self.versions = versions
        self.packages = packages
        self.visibleConflicts = visibleConflicts
    }

    /// Removes a name, also that of a version.
    func remove(parent: UInt64, name: [UInt8], directory: Bool, caller: Caller?) throws -> Answer<Void> {
        switch versionNodes.node(parent) {
        case nil:
            if let entry = try visibleConflicts.entry(named: name, in: parent) {
                return try remove(entry, directory: directory)
            }
            return .now(try namespace.remove(parent, name, directory: directory, caller))
        case .version, .member:
            return try packages.removeMember(named: try ItemName.checked(name), in: parent, directory)
        case .folder(let folder):
            // `rm -r` of a file's versions ends with their folder, which disappears with the last version.
            guard directory, let row = try index.child(of: folder, named: try ItemName.checked(name)) else {
                throw Errno.EPERM
            }
            return .later { [self] in
                guard try await context.parts.versions.otherVersions(of: row.id).isEmpty else { throw Errno.ENOTEMPTY }
            }
        case .file(let key):
            let isPackage = try index.row(key: key)?.kind == .directory
            guard directory == isPackage else { throw directory ? Errno.ENOTDIR : Errno.EISDIR }
            let name = try ItemName.checked(name)
            return .later { [self] in
                guard let version = try await versions.version(named: name, of: key) else { throw Errno.ENOENT }
                if context.parts.versions.removeAppVersion(version.id) {
                    if let caller { versions.emptied.add(key, by: caller.pid, now: context.parts.timekeeper.uptime()) }
                    return
                }
                // Only the cloud's retention erases an earlier version: `rm -r` would erase it on all devices.
                guard version.kind == .conflict else { throw Errno.EPERM }
                if isPackage { try await packages.requireEmptied(version, of: key) }
                try index.decide([(.resolve, version.id)], of: key)
                if let caller { versions.emptied.add(key, by: caller.pid, now: context.parts.timekeeper.uptime()) }
            }
        }
    }

    /// Resolves the version that a visible entry shows, as its removal from `.versions` does.
    private func remove(_ entry: VisibleConflicts.Entry, directory: Bool) throws -> Answer<Void> {
        let (version, key) = (entry.version, entry.document.key)
        let isPackage = entry.document.kind == .directory
        guard directory == isPackage else { throw directory ? Errno.ENOTDIR : Errno.EISDIR }
        guard isPackage else {
            try index.decide([(.resolve, version.id)], of: key)
            return .now(())
        }
        return .later { [self] in
            try await packages.requireEmptied(version, of: key, .besideDocument)
            try index.decide([(.resolve, version.id)], of: key)
        }
    }

    /// Renames an item. A version that is moved over a file becomes that file's content and is resolved.
    /// - Parameters:
    ///   - flags: of renameat2(2).
    ///   - caller: nil if unknown.
    func rename(
        parent: UInt64, name: [UInt8], newParent: UInt64, newName: [UInt8], flags: UInt32, caller: Caller?
    ) throws -> Answer<Void> {
        guard let node = versionNodes.node(parent) else {
            guard !isInVersions(newParent), try visibleConflicts.entry(named: name, in: parent) == nil else {
                throw Errno.EPERM
            }
            if try visibleConflicts.entry(named: newName, in: newParent) != nil {
                throw flags == 1 ? Errno.EEXIST : Errno.EPERM
            }
            return .now(
                try namespace.rename(
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
        // `mv` then copies the package member by member and removes it, which is the effect of a move.
        guard try index.row(key: key)?.kind == .file else { throw Errno.EXDEV }
        let name = try ItemName.checked(name), newName = try namespace.checkedForMaking(newName, in: newParent)
        return .later { [self] in
            guard let version = try await versions.version(named: name, of: key) else { throw Errno.ENOENT }
            let place = VersionPlace(parent: newParent, name: newName, isExclusive: flags == 1)
            try await move(version, of: key, to: place)
        }
    }

    /// Limit for the download of a version while it is moved to a free name; then EXDEV.
    private static let moveWaitingTime = Duration.seconds(2)

    /// A copy of the version's content; nil if it takes longer. The kernel keeps both folders locked during a rename.
    /// On EXDEV `mv` copies the version without those locks and then removes it. That copy continues the download.
    private func copySoon(_ version: RemoteVersion) async throws -> ContentID? {
        try await withThrowingTaskGroup(of: ContentID?.self) { [context] group in
            group.addTask { try await context.parts.versions.copy(version) }
            group.addTask {
                try await context.parts.timekeeper.sleep(for: Self.moveWaitingTime)
                return nil
            }
            let first = await group.nextResult()
            group.cancelAll()
            if case .success(.some(let content)) = first { return content }
            // The copy may have finished in that very moment, and one in its last step cannot be cancelled.
            var copied: ContentID?
            while let last = await group.nextResult() {
                if case .success(.some(let content)) = last { copied = content }
            }
            guard case .failure(let failure) = first else { return copied }
            if let copied { context.drop(copied) }
            throw failure
        }
    }

    private func move(_ version: RemoteVersion, of key: ItemKey, to place: VersionPlace) async throws {
        let node = VersionNodes.Node.version(version.id, of: key)
        let ino = try versionNodes.look(up: node, version, in: inodes) { UInt64(try index.newContentNumber()) }
        defer { versions.forget(ino, 1) }
        // If the target exists, wait for the download: on EXDEV `mv` would remove that file before it copies, and its
        // versions with it.
        let isTaken = try index.row(ino: place.parent).flatMap { try index.child(of: $0.key, named: place.name) } != nil
        let copied = isTaken ? try await context.parts.versions.copy(version) : try await copySoon(version)
        guard let content = copied else { throw Errno.EXDEV }
        do {
            // The content must be on disk before the index records it and before the other content is dropped.
            try contents.noteReplacement(content)
            let replaced = try index.place(version, of: key, content: content, ino: ino, at: place)
            if let replaced { context.drop(replaced) }
        } catch {
            context.drop(content)
            throw error
        }
        versionNodes.release(ino)
        inodes.withNode(ino) { $0.pages = nil }
        kernel.invalidateAttributes(ino: ino)
    }
}
