internal import FoundationEssentials
internal import SwiftProtobuf
internal import UbiquityCore

extension ItemChange {
    /// Reads protobuf. The chunks of a large file are parsed directly.
    init(_ raw: UnsafeRawBufferPointer, _ range: Range<Int>) throws(UbiquityError) {
        let parts = try ManifestExtractor(raw, range, path: [5, 8, 4, 1])
        try self.init(message: WireCodec.message(PBChange.self, parts.remaining))
        guard case .put(var fields) = action, fields.content?.manifest != nil else { return }
        fields.content?.manifest = parts.manifest
        action = .put(fields)
    }

    init(message: PBChange) throws(UbiquityError) {
        let action: Action
        switch message.action {
        case .put(let fields): action = .put(try ChangedFields(message: fields))
        case .delete: action = .delete
        case .versions(let list): action = .versions(try list.versionActions())
        case .undelete(let wanted):
            action = .undelete(wanted.hasPlace ? try Place(message: wanted.place) : nil)
        case nil: throw .malformed("a change has no known action")
        }
        self.init(
            id: try ItemID(wire: message.item, "an item's id"), kind: try ItemKind(wire: message.kind),
            baseRevision: try Revision(wire: message.baseRevision),
            changedAt: Timestamp(nanoseconds: message.changedAt), action: action)
    }

    var message: PBChange {
        var result = PBChange()
        result.item = id.data
        result.kind = kind.wire
        result.baseRevision = baseRevision.number
        result.changedAt = changedAt.nanoseconds
        switch action {
        case .put(let fields): result.put = fields.message
        case .delete: result.delete = PBDeletion()
        case .versions(let actions): result.versions = PBVersionActions(actions)
        case .undelete(let place):
            result.undelete = PBUndeletion()
            if let place { result.undelete.place = place.message }
        }
        return result
    }
}

extension ChangedFields {
    init(message: PBChangedFields) throws(UbiquityError) {
        self.init(
            place: message.hasPlace ? try Place(message: message.place) : nil,
            mode: message.hasMode ? message.mode : nil,
            createdAt: message.hasCreatedAt ? Timestamp(nanoseconds: message.createdAt) : nil,
            modifiedAt: message.hasModifiedAt ? Timestamp(nanoseconds: message.modifiedAt) : nil,
            xattrsSet: message.xattrsSet.map(Xattr.init(message:)),
            xattrsRemoved: message.xattrsRemoved.map { Array($0) },
            linkTarget: message.hasLinkTarget ? Array(message.linkTarget) : nil,
            content: message.hasContent ? try ContentChange(message: message.content) : nil,
            earlier: try [FieldTime](messages: message.earlier), unknownFields: Array(message.unknownFields.data))
    }

    var message: PBChangedFields {
        // SwiftProtobuf lets only its decoder set unknown fields. Malformed ones are left out.
        let kept = unknownFields.isEmpty ? nil : try? PBChangedFields(serializedBytes: unknownFields)
        var result = kept ?? PBChangedFields()
        if let place { result.place = place.message }
        if let mode { result.mode = mode }
        if let createdAt { result.createdAt = createdAt.nanoseconds }
        if let modifiedAt { result.modifiedAt = modifiedAt.nanoseconds }
        result.xattrsSet = xattrsSet.map(\.message)
        result.xattrsRemoved = xattrsRemoved.map { Data($0) }
        if let linkTarget { result.linkTarget = Data(linkTarget) }
        if let content { result.content = content.message }
        result.earlier = earlier.map(\.message)
        return result
    }
}

extension Place {
    init(message: PBPlace) throws(UbiquityError) {
        self.init(parent: try ItemID(wire: message.parent, "a parent's id"), name: try ItemName(wire: message.name))
    }

    var message: PBPlace {
        var result = PBPlace()
        result.parent = parent.data
        result.name = name.description
        return result
    }
}

extension ContentChange {
    init(message: PBContentChange) throws(UbiquityError) {
        self.init(
            version: try VersionID(wire: message.version, "a version's id"),
            baseVersion: message.hasBaseVersion ? try VersionID(wire: message.baseVersion, "a base version's id") : nil,
            size: message.size, manifest: message.hasManifest ? try message.manifest.manifest() : nil)
    }

    var message: PBContentChange {
        var result = PBContentChange()
        result.version = version.data
        if let baseVersion { result.baseVersion = baseVersion.data }
        result.size = size
        if let manifest { result.manifest = PBManifest(manifest) }
        return result
    }
}
