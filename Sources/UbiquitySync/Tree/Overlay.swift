package import UbiquityCore
package import UbiquityIndex

/// Computes the view of an item from its remote record and the local changes. Pure.
package enum Overlay {
    /// The row with the record's values in every field without a local change.
    ///
    /// Other types decide place, content and link target, because they concern other items and the disk.
    /// - Parameters:
    ///   - old: the record known before, which is the base for the comparison of attributes.
    ///   - keepTimes: whether the row shows a local content that the record's has not replaced yet. It then keeps its
    ///     times.
    ///   - trustsPrivileges: whether set-user-id and set-group-id bits are accepted from other devices (`Privileges`).
    package static func metadata(
        _ row: ItemRow, old: RemoteItem?, new: RemoteItem, keepTimes: Bool, trustsPrivileges: Bool = false
    ) -> ItemRow {
        var result = row
        if !row.dirty.contains(.mode) {
            result.mode = trustsPrivileges ? new.mode : arrivingMode(row, new)
        }
        if !row.dirty.contains(.times), !keepTimes {
            result.modifiedAt = new.modifiedAt
            result.createdAt = new.createdAt
        }
        result.xattrs = row.dirty.contains(.xattrs)
            ? merged(
                local: row.xattrs, base: old?.xattrs ?? [], remote: new.xattrs, changed: row.changedXattrs) : new.xattrs
        if row.kind == .symlink {
            result.linkTarget = new.linkTarget
            result.size = Int64(new.linkTarget.count)
        }
        return result
    }

    /// Keeps privilege bits that are set here already, unless the record has a content from another device.
    private static func arrivingMode(_ row: ItemRow, _ new: RemoteItem) -> UInt32 {
        let hasOtherContent = !row.dirty.contains(.content) && new.content.map { $0.version != row.version } ?? false
        return Privileges.arriving(new.mode, over: hasOtherContent ? 0 : row.mode)
    }

    /// The remote attributes with the local changes since `base` applied again.
    /// - Parameter changed: names that were changed here, even if they equal `base` again: `remote` has the value sent
    ///   in between.
    package static func merged(
        local: [Xattr], base: [Xattr], remote: [Xattr], changed: Set<[UInt8]> = []
    ) -> [Xattr] {
        let difference = Self.difference(from: base, to: local)
        let touched = changed.union(difference.removed).union(difference.set.map(\.name))
        return (remote.filter { !touched.contains($0.name) } + local.filter { touched.contains($0.name) }).sorted()
    }

    /// The attributes to set and to remove to turn one list into the other.
    package static func difference(from old: [Xattr], to new: [Xattr]) -> (set: [Xattr], removed: [[UInt8]]) {
        let names = Set(new.map(\.name))
        return (new.filter { !old.contains($0) }, old.map(\.name).filter { !names.contains($0) })
    }

    /// The row of an item that is new here, without an entry.
    package static func newRow(
        _ item: RemoteItem, key: ItemKey, owner: (uid: UInt32, gid: UInt32), now: Timestamp,
        trustsPrivileges: Bool = false
    ) -> ItemRow {
        ItemRow(
            key: key, ino: UInt64(key.rawValue), id: item.id, kind: item.kind,
            mode: trustsPrivileges ? item.mode : Privileges.arriving(item.mode), uid: owner.uid, gid: owner.gid,
            size: item.content?.size ?? Int64(item.linkTarget.count), createdAt: item.createdAt,
            modifiedAt: item.modifiedAt, changedAt: item.modifiedAt, linkTarget: item.linkTarget, xattrs: item.xattrs,
            localXattrs: [], entry: nil, version: item.content?.version, content: nil, contentState: .none, flags: [],
            dirty: [], dirtyOrder: 0, dirtyBase: .zero, dirtyAt: .zero, generation: 0, nextVersion: nil, usedAt: now)
    }
}
