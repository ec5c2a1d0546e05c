internal import FoundationEssentials
package import UbiquityCore

extension PackageEdit {
    /// Reads protobuf. The chunks of a large package are parsed directly.
    init(_ raw: UnsafeRawBufferPointer, _ range: Range<Int>) throws(UbiquityError) {
        let parts = try ManifestExtractor(raw, range, path: [4, 3, 1])
        try self.init(message: WireCodec.message(PBPackageEdit.self, parts.remaining))
        if !parts.manifest.isEmpty { lost?.manifest = parts.manifest }
    }

    init(message: PBPackageEdit) throws(UbiquityError) {
        self.init(
            id: try ItemID(wire: message.id, "a package's id"),
            base: message.hasBase ? try Revision(wire: message.base) : nil,
            changedAt: Timestamp(nanoseconds: message.changedAt),
            lost: message.hasLost ? try LostPackage(message: message.lost) : nil)
    }

    var message: PBPackageEdit {
        var result = PBPackageEdit()
        result.id = id.data
        if let base { result.base = base.number }
        result.changedAt = changedAt.nanoseconds
        if let lost { result.lost = lost.message }
        return result
    }
}

extension LostPackage {
    init(message: PBLostPackage) throws(UbiquityError) {
        self.init(
            version: try VersionID(wire: message.version, "a version's id"), size: message.size,
            manifest: try message.manifest.manifest(), modifiedAt: Timestamp(nanoseconds: message.modifiedAt),
            device: try DeviceID(wire: message.device, "a device's id"), deviceName: message.deviceName)
    }

    var message: PBLostPackage {
        var result = PBLostPackage()
        result.version = version.data
        result.size = size
        result.manifest = PBManifest(manifest)
        result.modifiedAt = modifiedAt.nanoseconds
        result.device = device.data
        result.deviceName = deviceName
        return result
    }
}

extension PackageConflict {
    init(message: PBPackageConflict) throws(UbiquityError) {
        self.init(
            package: try ItemID(wire: message.package, "a package's id"),
            revision: try Revision(wire: message.revision), isYoursNewer: message.isYoursNewer,
            modifiedAt: Timestamp(nanoseconds: message.modifiedAt),
            device: try DeviceID(wire: message.device, "a device's id"), deviceName: message.deviceName)
        try checkDeviceName(deviceName)
    }

    var message: PBPackageConflict {
        var result = PBPackageConflict()
        result.package = package.data
        result.revision = revision.number
        result.isYoursNewer = isYoursNewer
        result.modifiedAt = modifiedAt.nanoseconds
        result.device = device.data
        result.deviceName = deviceName
        return result
    }
}

// The encoding of a package's state as a content. It begins with a head: `mark`, the length of the list in 8 bytes, and
// the list of members as a message. The contents of the files follow in the list's order, each in its own chunks. So
// it is stored and read like any version, and the files' chunks are not stored twice.
extension PackageTree {
    package static let mark = Array("ubqtree1".utf8)
    /// Bytes before the list.
    package static let headLength = 16

    /// The bytes before the first member's content. Equal states have equal ones.
    package func head() throws(UbiquityError) -> [UInt8] {
        let list = try wire(as: .protobuf)
        let length = UInt64(list.count)
        return Self.mark + (0..<8).map { UInt8(truncatingIfNeeded: length >> UInt64((7 - $0) * 8)) } + list
    }

    /// The length of the list, from a content's first `headLength` bytes.
    package static func listLength(_ bytes: [UInt8]) throws(UbiquityError) -> Int {
        guard bytes.count == headLength, Array(bytes.prefix(mark.count)) == mark else {
            throw .malformed("the version is not the state of a package")
        }
        let length = bytes.suffix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        guard length <= UInt64(Limits.maximumMessageLength) else { throw .malformed("a list of \(length) bytes") }
        return Int(length)
    }

    /// - Parameters:
    ///   - list: the bytes after the head.
    ///   - manifest: the chunks of the whole content.
    package init(list: [UInt8], _ manifest: Manifest) throws(UbiquityError) {
        var members = try WireCodec.decode(PackageTree.self, from: list, as: .protobuf).members
        var position = manifest.startIndex, skipped = 0
        while skipped < Self.headLength + list.count, position < manifest.endIndex {
            skipped += manifest[position].length
            position += 1
        }
        for place in members.indices {
            let end = position + members[place].manifest.count
            guard end <= manifest.endIndex else { throw .malformed("a package's state lacks chunks") }
            members[place].manifest = Array(manifest[position..<end])
            try checkContent(size: members[place].size, manifest: members[place].manifest)
            position = end
        }
        self.init(members)
    }
}

extension PackageTree: MessageConvertible {
    static var shape: MessageShape { .member }

    init(message: PBPackageTree) throws(UbiquityError) {
        var members = [PackageMember](), folders: Set<[ItemName]> = [[]], chunks = 0
        for each in message.members {
            chunks += Int(each.chunks)
            guard chunks <= Limits.maximumChunksPerContent else { throw .malformed("a state of too many chunks") }
            let member = try PackageMember(message: each)
            guard folders.contains(Array(member.path.dropLast())) else { throw .malformed("a member lacks its folder") }
            if member.kind == .directory { folders.insert(member.path) }
            members.append(member)
        }
        guard Set(members.map(\.path)).count == members.count else { throw .malformed("two members of one name") }
        self.init(members)
    }

    func message() throws(UbiquityError) -> PBPackageTree {
        var result = PBPackageTree()
        result.members = members.map(\.message)
        return result
    }
}

extension PackageMember {
    /// The content's manifest has the chunks. The message has only their number.
    init(message: PBPackageMember) throws(UbiquityError) {
        var path = [ItemName]()
        for name in message.path { path.append(try ItemName(wire: name)) }
        guard (1...Limits.maximumDepth).contains(path.count) else { throw .malformed("a member's path is empty") }
        let kind = try ItemKind(wire: message.kind)
        guard kind == .file || kind == .directory || kind == .symlink else { throw .malformed("a member's kind") }
        if kind == .symlink { try checkLinkTarget(Array(message.linkTarget), of: kind) }
        try checkMode(message.mode)
        let unknown = ChunkReference(id: ChunkID(digest: []), length: 0)
        self.init(
            path: path, kind: kind, mode: message.mode, createdAt: Timestamp(nanoseconds: message.createdAt),
            modifiedAt: Timestamp(nanoseconds: message.modifiedAt),
            xattrs: message.xattrs.map(Xattr.init(message:)).sorted(), linkTarget: Array(message.linkTarget),
            version: kind == .file ? try VersionID(wire: message.version, "a version's id") : nil, size: message.size,
            manifest: Manifest(repeating: unknown, count: Int(message.chunks)))
    }

    var message: PBPackageMember {
        var result = PBPackageMember()
        result.path = path.map(\.description)
        result.kind = kind.wire
        result.mode = mode
        result.createdAt = createdAt.nanoseconds
        result.modifiedAt = modifiedAt.nanoseconds
        result.xattrs = xattrs.map(\.message)
        result.linkTarget = Data(linkTarget)
        if let version { result.version = version.data }
        result.size = size
        result.chunks = UInt32(clamping: manifest.count)
        return result
    }
}
