package import UbiquityCore

// The rules of well-formed values, whoever made them. The codec applies them to what it reads, and the cloud to what it
// gets in process, so that no path bypasses them.

/// Limits that only messages have.
package enum MessageLimits {
    /// Bytes in the name of a device: enough for a host name or a person's name for a machine.
    package static let maximumDeviceNameLength = 255
    /// Characters of the features of a cloud.
    package static let maximumFeaturesLength = 4096
    /// Bytes in the name of one extended attribute (XATTR_NAME_MAX of Linux).
    package static let maximumXattrNameLength = 255
    /// Bytes of text in a failure's message, place or remedy.
    package static let maximumFailureTextLength = 4096
}

extension ChunkReference {
    package func check() throws(UbiquityError) {
        guard (1...Limits.maximumChunkLength).contains(length) else {
            throw .malformed("a chunk of \(length) bytes; 1 to \(Limits.maximumChunkLength) are possible")
        }
    }
}

extension Chunk {
    /// Checks the length. The store verifies the content against its id.
    package func checkLength() throws(UbiquityError) { try ChunkReference(id: id, length: bytes.count).check() }
}

/// Checks that size and manifest of a content agree.
func checkContent(size: Int64, manifest: Manifest?) throws(UbiquityError) {
    guard (0...Limits.maximumFileSize).contains(size) else {
        throw .malformed("a file of \(size) bytes; 0 to \(Limits.maximumFileSize) are possible")
    }
    guard let manifest else { return }
    var sum: Int64 = 0
    for reference in manifest {
        try reference.check()
        sum += Int64(reference.length)
    }
    guard sum == size else { throw .malformed("the chunks of a file of \(size) bytes have \(sum) bytes") }
}

func checkDeviceName(_ name: String) throws(UbiquityError) {
    guard name.utf8.count <= MessageLimits.maximumDeviceNameLength, !name.utf8.contains(0) else {
        throw .malformed("a device's name is longer than \(MessageLimits.maximumDeviceNameLength) bytes or has a zero")
    }
}

/// Checks the target of a symlink or a hard link.
func checkLinkTarget(_ target: [UInt8], of kind: ItemKind) throws(UbiquityError) {
    guard kind == .symlink || kind == .hardLink else { throw .malformed("only a link has a link target") }
    if kind == .hardLink {
        guard let id = ItemID(bytes: target), id != .root else { throw .malformed("a hard link lacks an item's id") }
        return
    }
    guard (1...Limits.maximumLinkLength).contains(target.count), !target.contains(0) else {
        throw .malformed("a symlink's text has \(target.count) bytes, not 1 to \(Limits.maximumLinkLength), or a zero")
    }
}

func checkMode(_ mode: UInt32) throws(UbiquityError) {
    guard mode & ~0o7777 == 0 else { throw .malformed("mode \(String(mode, radix: 8)) has more than permission bits") }
}

func checkXattrName(_ name: [UInt8]) throws(UbiquityError) {
    guard (1...MessageLimits.maximumXattrNameLength).contains(name.count), !name.contains(0) else {
        throw .malformed("an attribute's name has \(name.count) bytes or a zero")
    }
}

extension ContentChange {
    func check() throws(UbiquityError) { try checkContent(size: size, manifest: manifest) }
}

extension Place {
    func check() throws(UbiquityError) {
        do {
            _ = try ItemName(name.bytes)
        } catch {
            throw .malformed("a name of \(name.bytes.count) bytes cannot be used: \(error)")
        }
        guard name != .versionsFolder else { throw .malformed("the name \(name) is reserved for versions") }
    }
}

extension ChangedFields {
    /// Checks each field by itself, and that `kind` has it.
    func check(kind: ItemKind, isRoot: Bool) throws(UbiquityError) {
        if let place { try checkPlace(place, isRoot: isRoot) }
        if let mode { try checkMode(mode) }
        if let linkTarget { try checkLinkTarget(linkTarget, of: kind) }
        if let content {
            guard kind == .file else { throw .malformed("only a file has content") }
            try content.check()
        }
        try checkEarlier(try checkXattrs())
    }

    /// - Parameter xattrs: names of the changed attributes.
    private func checkEarlier(_ xattrs: Set<[UInt8]>) throws(UbiquityError) {
        var fields = Set<FieldTime.Field>()
        for field in earlier.map(\.field) {
            if case .xattr(let name) = field, !xattrs.contains(name) {
                throw .malformed("there is a time for an attribute that is not changed")
            }
            guard fields.insert(field).inserted else { throw .malformed("there are two times for one change") }
        }
    }

    private func checkPlace(_ place: Place, isRoot: Bool) throws(UbiquityError) {
        guard !isRoot else { throw .malformed("the top folder cannot be moved") }
        try place.check()
    }

    /// - Returns: the names of the changed attributes.
    private func checkXattrs() throws(UbiquityError) -> Set<[UInt8]> {
        var names = Set<[UInt8]>()
        var total = 0
        for attribute in xattrsSet {
            try checkXattrName(attribute.name)
            total += attribute.name.count + attribute.value.count
            guard names.insert(attribute.name).inserted else { throw .malformed("an attribute is set twice") }
        }
        for name in xattrsRemoved {
            try checkXattrName(name)
            guard names.insert(name).inserted else {
                throw .malformed("an attribute is removed twice, or set and removed")
            }
        }
        guard total <= Limits.maximumXattrBytes else {
            throw .malformed("attributes of \(total) bytes; \(Limits.maximumXattrBytes) are possible")
        }
        return names
    }
}

extension ItemChange {
    package func check() throws(UbiquityError) {
        guard baseRevision >= .zero else { throw .malformed("a revision is negative") }
        guard id != .root || kind == .directory else { throw .malformed("the top folder is a directory") }
        switch action {
        case .put(let fields): try fields.check(kind: kind, isRoot: id == .root)
        case .delete: guard id != .root else { throw .malformed("the top folder cannot be deleted") }
        case .versions(let actions): try check(actions)
        case .undelete(let place):
            guard id != .root else { throw .malformed("the top folder is never deleted") }
            if let place { try place.check() }
        }
    }

    private func check(_ actions: [VersionAction]) throws(UbiquityError) {
        guard kind == .file || kind == .directory else { throw .malformed("only files and packages have versions") }
        guard (1...Limits.maximumVersionActions).contains(actions.count) else {
            throw .malformed("\(actions.count) decisions about versions, not 1 to \(Limits.maximumVersionActions)")
        }
    }
}

extension CommitRequest {
    /// Checks the counts, and each change by itself.
    package func check() throws(UbiquityError) {
        try checkDeviceName(deviceName)
        guard (1...Limits.maximumChangesPerCommit).contains(changes.count) else {
            throw .malformed("a commit of \(changes.count) changes, not 1 to \(Limits.maximumChangesPerCommit)")
        }
        for change in changes { try change.check() }
        guard packages.count <= Limits.maximumPackagesPerCommit else {
            throw .malformed("a commit about \(packages.count) packages")
        }
        for package in packages { try package.check() }
        var total = 0
        for chunk in chunks {
            try chunk.checkLength()
            total += chunk.bytes.count
        }
        guard total <= Limits.maximumInlineChunkBytes else {
            throw .malformed("a commit with \(total) bytes of chunks, not 0 to \(Limits.maximumInlineChunkBytes)")
        }
    }
}

extension PackageEdit {
    func check() throws(UbiquityError) {
        guard id != .root else { throw .malformed("the top folder is no package") }
        guard let lost else { return }
        try checkDeviceName(lost.deviceName)
        try checkContent(size: lost.size, manifest: lost.manifest)
    }
}
