import UbiquityCore
import UbiquityWire

/// Values as devices and clouds send them, from a small world, so that the same ids and names occur often.
extension FuzzRandom {
    mutating func itemID() -> ItemID { oneIn(12) ? .root : ItemID(high: 1, low: UInt64(below(10))) }
    mutating func ordinaryID() -> ItemID { ItemID(high: 1, low: UInt64(below(10))) }
    mutating func versionID() -> VersionID { VersionID(high: 2, low: UInt64(below(24))) }
    mutating func deviceID() -> DeviceID { DeviceID(high: 0, low: UInt64(1 + below(3))) }
    mutating func revision(upTo last: Int64 = 40) -> Revision { Revision(Int64(below(Int(last) + 1))) }

    mutating func time() -> Timestamp {
        oneIn(12) ? Timestamp(nanoseconds: oddNumber()) : Timestamp(seconds: Int64(below(2000)), nanoseconds: 0)
    }

    mutating func kind() -> ItemKind { pick([.file, .file, .file, .directory, .directory, .symlink, .hardLink]) }

    mutating func name() -> ItemName {
        let text = pick(["a", "b", "c", "d.rtfd", "e.txt", "e 2.txt", "é", "e\u{301}", ".ubiquityignore", "x~"])
        return ItemName(stored: Array(text.utf8))
    }

    mutating func place() -> Place { Place(parent: oneIn(2) ? .root : itemID(), name: name()) }

    mutating func xattr() -> Xattr {
        Xattr(name: Array(pick(["user.a", "user.b", "user.ubiquity.package", "security.x"]).utf8), value: bytes(below(4)))
    }

    mutating func xattrs() -> [Xattr] {
        var found = [[UInt8]: Xattr]()
        for _ in 0..<below(3) {
            let xattr = xattr()
            found[xattr.name] = xattr
        }
        return found.values.sorted()
    }

    mutating func manifest() -> Manifest {
        (0..<below(3)).map { _ in
            ChunkReference(id: ChunkID(digest: [byte() & 7]), length: 1 + below(40))
        }
    }

    mutating func linkTarget(_ kind: ItemKind) -> [UInt8] {
        switch kind {
        case .symlink: pick([[65], Array("../x".utf8), [0xFF]])
        case .hardLink: ItemID(high: 1, low: UInt64(below(10))).bytes
        default: []
        }
    }

    mutating func mode() -> UInt32 { pick([0o644, 0o755, 0o600, 0o6755, 0, 0o7777]) }

    mutating func remoteContent() -> RemoteContent {
        let manifest = manifest(), isAvailable = !oneIn(6)
        return RemoteContent(
            version: versionID(), size: manifest.reduce(0) { $0 + Int64($1.length) }, isAvailable: isAvailable,
            device: deviceID(), deviceName: pick(["a", "b", ""]), manifest: isAvailable && oneIn(2) ? manifest : nil)
    }

    mutating func remoteVersion(_ kind: RemoteVersion.Kind) -> RemoteVersion {
        RemoteVersion(
            content: remoteContent(), kind: kind, modifiedAt: time(), savedAt: time(), savedName: name(),
            baseVersion: oneIn(2) ? nil : versionID())
    }

    mutating func remoteItem() -> RemoteItem {
        let id = oneIn(30) ? ItemID.root : ordinaryID()
        let kind = id == .root ? .directory : kind(), conflicts = oneIn(5) ? below(3) : 0
        return RemoteItem(
            id: id, kind: kind, revision: revision(), isDeleted: id != .root && oneIn(5), parent: oneIn(2) ? .root : itemID(),
            name: name(), mode: mode(), createdAt: time(), modifiedAt: time(), xattrs: xattrs(),
            linkTarget: linkTarget(kind), content: kind == .file ? remoteContent() : nil, conflictCount: conflicts,
            conflicts: (0..<conflicts).map { _ in remoteVersion(.conflict) }, hasHistory: oneIn(3))
    }

    mutating func contentChange() -> ContentChange {
        let manifest = manifest(), isAnnounced = oneIn(4)
        return ContentChange(
            version: versionID(), baseVersion: oneIn(3) ? nil : versionID(),
            size: manifest.reduce(0) { $0 + Int64($1.length) }, manifest: isAnnounced ? nil : manifest)
    }

    mutating func changedFields(_ kind: ItemKind) -> ChangedFields {
        let isNew = oneIn(3)
        var fields = ChangedFields()
        if isNew || oneIn(2) { fields.place = place() }
        if isNew || oneIn(4) { fields.mode = mode() }
        if isNew || oneIn(4) { fields.modifiedAt = time() }
        if isNew || oneIn(6) { fields.createdAt = time() }
        if kind == .file, isNew || oneIn(2) { fields.content = contentChange() }
        if kind == .symlink || kind == .hardLink, isNew || oneIn(3) { fields.linkTarget = linkTarget(kind) }
        if oneIn(4) { fields.xattrsSet = xattrs() }
        let set = Set(fields.xattrsSet.map(\.name))
        if oneIn(6) { fields.xattrsRemoved = [xattr().name].filter { !set.contains($0) } }
        if oneIn(6) { fields.earlier = [FieldTime(pick([.place, .mode, .times, .content]), at: time())] }
        return fields
    }

    mutating func versionAction() -> VersionAction {
        switch below(3) {
        case 0: .resolve(versionID())
        case 1: .remove(versionID())
        default: .restore(versionID(), as: versionID(), base: oneIn(2) ? nil : versionID())
        }
    }

    mutating func itemChange() -> ItemChange {
        let kind = kind()
        if oneIn(30) {
            return ItemChange(
                id: .root, kind: .directory, baseRevision: revision(), changedAt: time(),
                action: .put(ChangedFields(mode: mode(), xattrsSet: xattrs())))
        }
        let action: ItemChange.Action = switch below(8) {
        case 0: .delete
        case 1 where kind == .file || kind == .directory: .versions((0...below(3)).map { _ in versionAction() })
        case 2: .undelete(oneIn(2) ? nil : place())
        default: .put(changedFields(kind))
        }
        return ItemChange(
            id: ordinaryID(), kind: kind, baseRevision: oneIn(3) ? .zero : revision(), changedAt: time(), action: action)
    }

    mutating func packageEdit() -> PackageEdit {
        let manifest = manifest()
        let lost = LostPackage(
            version: versionID(), size: manifest.reduce(0) { $0 + Int64($1.length) }, manifest: manifest,
            modifiedAt: time(), device: deviceID(), deviceName: "a")
        return PackageEdit(
            id: ordinaryID(), base: oneIn(3) ? nil : revision(), changedAt: time(), lost: oneIn(3) ? lost : nil)
    }

    mutating func commitRequest() -> CommitRequest {
        CommitRequest(
            id: RequestID(high: 0, low: next()), device: deviceID(), deviceName: pick(["a", "b"]),
            changes: (0...below(8)).map { _ in itemChange() }, sentAt: oneIn(2) ? nil : time(),
            packages: oneIn(5) ? (0...below(2)).map { _ in packageEdit() } : [])
    }

    mutating func packageTree() -> PackageTree {
        let folder = ItemName(stored: Array("images".utf8))
        var paths = Set<[ItemName]>(), members = [PackageMember]()
        let hasFolder = oneIn(2)
        if hasFolder {
            members.append(
                PackageMember(path: [folder], kind: .directory, mode: mode(), createdAt: time(), modifiedAt: time()))
        }
        for _ in 0..<below(4) {
            let path = (hasFolder && oneIn(2) ? [folder] : []) + [name()], manifest = manifest()
            guard paths.insert(path).inserted else { continue }
            members.append(
                PackageMember(
                    path: path, kind: .file, mode: mode(), createdAt: time(), modifiedAt: time(), xattrs: xattrs(),
                    version: versionID(), size: manifest.reduce(0) { $0 + Int64($1.length) }, manifest: manifest))
        }
        return PackageTree(members)
    }
}
