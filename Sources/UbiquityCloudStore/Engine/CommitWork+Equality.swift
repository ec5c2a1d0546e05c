internal import UbiquityCore
internal import UbiquityWire

// Detects creations of documents that exist already: the same document put into the container on two devices is one.
extension CommitWork {
    /// The items that this commit creates, by their folder.
    func childrenOfNew() -> [ItemID: [ItemRecord]] {
        Dictionary(grouping: order.compactMap { drafts[$0]?.record }.filter(\.isLive), by: \.parent)
    }

    /// Whether names, kinds and contents are equal, for a folder including everything in it. A content that has not
    /// arrived equals none.
    func isEqual(_ new: ItemRecord, _ existing: ItemRecord, _ children: [ItemID: [ItemRecord]]) throws -> Bool {
        guard new.kind == existing.kind, existing.isLive else { return false }
        switch new.kind {
        case .file:
            guard let manifest = newManifest(of: new.id), let current = try existing.version.flatMap(version)
            else { return false }
            return current.manifest == manifest
        case .symlink: return new.linkTarget == existing.linkTarget
        case .directory:
            let inside = children[new.id] ?? []
            // An existing item that this commit moves in prevents equality.
            guard inside.allSatisfy({ drafts[$0.id]?.original == nil }) else { return false }
            guard try state.liveChildCount(of: existing.id) == inside.count else { return false }
            return try inside.allSatisfy { child in
                guard let other = try state.liveChild(of: existing.id, named: child.name).flatMap(record),
                    other.parent == existing.id
                else { return false }
                return try isEqual(child, other, children)
            }
        // The target of a link in a package is new itself.
        case .hardLink, .fifo, .socket, .characterDevice, .blockDevice: return false
        }
    }

    private func newManifest(of id: ItemID) -> Manifest? {
        guard let position = positions[id], case .put(let fields) = request.changes[position].action else { return nil }
        return fields.content?.manifest
    }
}
