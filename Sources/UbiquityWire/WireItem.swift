internal import FoundationEssentials
package import UbiquityCore
internal import SwiftProtobuf

extension RemoteItem: MessageConvertible {
    static var shape: MessageShape { .item }

    init(message: PBItem) throws(UbiquityError) {
        let id = try ItemID(wire: message.id, "an item's id")
        guard let conflicts = Int(exactly: message.conflictCount) else { throw .malformed("too many conflicts") }
        self.init(
            id: id, kind: try ItemKind(wire: message.kind), revision: try Revision(wire: message.revision),
            isDeleted: message.isDeleted, parent: try ItemID(wire: message.parent, "a parent's id"),
            name: id == .root ? ItemName(stored: []) : try ItemName(wire: message.name),
            mode: message.mode, createdAt: Timestamp(nanoseconds: message.createdAt),
            modifiedAt: Timestamp(nanoseconds: message.modifiedAt),
            xattrs: message.xattrs.map(Xattr.init(message:)).sorted(), linkTarget: Array(message.linkTarget),
            content: message.hasContent ? try RemoteContent(message: message.content) : nil,
            conflictCount: conflicts, conflicts: try RemoteVersion.list(message.conflicts),
            hasHistory: message.hasHistory_p, unknownFields: Array(message.unknownFields.data))
        try check()
    }

    /// Checks that the item is well-formed. One malformed item fails the whole page.
    package func check() throws(UbiquityError) {
        try checkMode(mode)
        for attribute in xattrs { try checkXattrName(attribute.name) }
        if kind == .symlink || kind == .hardLink || !linkTarget.isEmpty { try checkLinkTarget(linkTarget, of: kind) }
        try content?.check()
        guard (kind == .file) == (content != nil) else { throw .malformed("a file, and only a file, has content") }
        guard conflicts.count <= min(conflictCount, Limits.maximumConflictsInRecord) else {
            throw .malformed("an item lists more conflict versions than its count")
        }
        guard id != .root || (kind == .directory && !isDeleted) else {
            throw .malformed("the top folder is a directory that is not deleted")
        }
    }

    func message() throws(UbiquityError) -> PBItem {
        var result = try Self.empty(with: unknownFields)
        result.id = id.data
        result.kind = kind.wire
        result.revision = revision.number
        result.isDeleted = isDeleted
        result.parent = parent.data
        result.name = name.description
        result.mode = mode
        result.createdAt = createdAt.nanoseconds
        result.modifiedAt = modifiedAt.nanoseconds
        result.xattrs = xattrs.map(\.message)
        result.linkTarget = Data(linkTarget)
        if let content { result.content = content.message }
        result.conflictCount = UInt32(clamping: conflictCount)
        result.conflicts = conflicts.map(\.message)
        result.hasHistory_p = hasHistory
        return result
    }

    /// A message with only these unknown fields: SwiftProtobuf lets only its decoder set them.
    private static func empty(with unknownFields: [UInt8]) throws(UbiquityError) -> PBItem {
        guard !unknownFields.isEmpty else { return PBItem() }
        do {
            return try PBItem(serializedBytes: unknownFields)
        } catch {
            throw .malformed("an item's unknown fields cannot be read: \(error)")
        }
    }
}

extension RemoteContent {
    init(message: PBContent) throws(UbiquityError) {
        self.init(
            version: try VersionID(wire: message.version, "a version's id"), size: message.size,
            isAvailable: message.isAvailable, device: try DeviceID(wire: message.device, "a device's id"),
            deviceName: message.deviceName, manifest: message.hasManifest ? try message.manifest.manifest() : nil)
        try check()
    }

    /// Checks that the version is well-formed.
    package func check() throws(UbiquityError) {
        try checkDeviceName(deviceName)
        try checkContent(size: size, manifest: manifest)
        guard isAvailable || manifest == nil else { throw .malformed("a content that is not uploaded has chunks") }
    }

    var message: PBContent {
        var result = PBContent()
        result.version = version.data
        result.size = size
        result.isAvailable = isAvailable
        result.device = device.data
        result.deviceName = deviceName
        if let manifest { result.manifest = PBManifest(manifest) }
        return result
    }
}
