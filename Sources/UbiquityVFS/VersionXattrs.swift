internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The extended attributes of versions and of their members.
///
/// It has no state of its own. `Xattrs` calls it. It calls the index only.
final class VersionXattrs: Room {
    let context: FileSystemContext

    init(_ context: FileSystemContext) {
        self.context = context
    }

    func value(of node: VersionNodes.Node, name: [UInt8]) throws -> [UInt8] {
        if case .member = node {
            guard let found = memberXattrs(of: node).first(where: { $0.name == name }) else { throw Errno.ENODATA }
            return found.value
        }
        guard case .version(let id, let key, _) = node,
            let version = versionNodes.version(id), let row = try index.row(key: key)
        else { throw Errno.ENODATA }
        let text: String
        switch VersionAttribute(name: name) {
        case .displayName: text = version.savedName.description
        case .savingDevice: text = version.content.deviceName
        case .isConflict: text = version.kind == .conflict ? "1" : "0"
        // A resolved conflict leaves the folder, so this is always 0.
        case .isResolved: text = "0"
        case .versionID: text = id.description
        case .itemID: text = row.id.description
        case .downloadingError:
            text = version.content.isAvailable ? "" : "not uploaded yet by \(version.content.deviceName)"
        case nil: throw Errno.ENODATA
        }
        return Array(text.utf8)
    }

    func names(of node: VersionNodes.Node, caller: Caller) -> [UInt8] {
        if case .member = node { return memberXattrs(of: node).flatMap { $0.name + [0] } }
        guard case .version = node, !CopyTools.isCopying(caller.pid) else { return [] }
        return VersionAttribute.allCases.flatMap { $0.name + [0] }
    }

    /// The attributes that programs had set on the member in that version of the package.
    private func memberXattrs(of node: VersionNodes.Node) -> [Xattr] {
        // The kernel acts on `security.*`, for example on file capabilities: another device must not set them here.
        (versionNodes.member(node)?.xattrs ?? []).filter { !$0.name.starts(with: Self.securityPrefix) }
    }

    private static let securityPrefix = Array("security.".utf8)

    /// Sets an attribute of a version. Only `resolved` can be set.
    func set(of node: VersionNodes.Node, name: [UInt8], value: [UInt8]) throws {
        guard case .version(let id, let key, _) = node, ControlAttribute(name: name) == .resolved else {
            throw Errno.EPERM
        }
        guard let version = versionNodes.version(id) else { throw Errno.ESTALE }
        guard version.kind == .conflict, value == [UInt8(ascii: "1")] else { throw Errno.EINVAL }
        try index.decide([(.resolve, id)], of: key)
    }
}
