package import UbiquityCore

/// Privileges that a file gives to programs that execute it: set-user-id, set-group-id and file capabilities.
///
/// Another device must not set them here: root may own what arrives, and a mount with `allow_other,suid` would let
/// everybody run it as root.
package enum Privileges {
    /// Set-user-id and set-group-id.
    package static let bits: UInt32 = 0o6000
    package static let capability = Array("security.capability".utf8)

    /// Returns the mode that an item shows for a record from the cloud.
    ///
    /// - Parameter shown: The item's present mode. Its privilege bits stay as long as the record has them too.
    package static func arriving(_ mode: UInt32, over shown: UInt32 = 0) -> UInt32 {
        mode & ~(bits & ~shown)
    }
}

extension ItemIndex {
    /// Takes away, once, the set-user-id and set-group-id bits that other devices may have set here: an earlier program
    /// accepted them, or a mount that trusted them (`--trust-suid`). The cloud's records keep them.
    ///
    /// The index does not know who set a bit. So it also takes a bit away that was set here and uploaded; a change that
    /// waits for its upload stays.
    /// - Parameter trusts: whether this mount accepts such bits. Then the next mount that does not has to look.
    /// - Returns: the number of items whose mode changed.
    package func reviewPrivileges(trusts: Bool) throws -> Int {
        let isReviewed = try read { try $0.hasNoForeignPrivileges() }
        guard !trusts else {
            if isReviewed { try write(.startup) { try $0.setHasNoForeignPrivileges(false) } }
            return 0
        }
        var count = 0, isLast = isReviewed
        while !isLast {
            let rows = try read { try $0.rowsWithForeignPrivileges(limit: Self.privilegesPage) }
            isLast = rows.count < Self.privilegesPage
            try write(.startup) { [isLast] transaction in
                for before in rows {
                    var row = before
                    row.mode &= ~Privileges.bits
                    try transaction.update(row, before: before)
                    transaction.note(.attributes, before: before, after: row)
                }
                if isLast { try transaction.setHasNoForeignPrivileges(true) }
            }
            count += rows.count
        }
        return count
    }

    /// Items changed in one transaction.
    private static let privilegesPage = 1000
}

extension IndexReader {
    fileprivate static let reviewed = "privilegesReviewed"

    fileprivate func hasNoForeignPrivileges() throws -> Bool { try metaNumber(Self.reviewed) == 1 }

    fileprivate func rowsWithForeignPrivileges(limit: Int) throws -> [ItemRow] {
        let bits = Privileges.bits, own = DirtyFields([.created, .mode, .deleted]).rawValue
        return try rows(
            RowCoding.select(
                """
                items.mode & \(bits) AND items.dirty & \(own) = 0
                AND EXISTS (SELECT 1 FROM remote WHERE remote.id = items.id AND remote.mode & items.mode & \(bits))
                """) + " ORDER BY items.key LIMIT ?", [.int(Int64(limit))])
    }
}

extension IndexTransaction {
    fileprivate func setHasNoForeignPrivileges(_ isSo: Bool) throws { try setMeta(Self.reviewed, isSo ? 1 : 0) }
}

extension ItemRow {
    /// Removes the privileges when content arrives from elsewhere, because they were granted to the old content. This
    /// does not mark the row dirty, so the cloud and other devices keep their bits.
    package mutating func dropPrivileges() {
        mode &= ~Privileges.bits
        localXattrs.removeAll { $0.name == Privileges.capability }
    }

    /// Returns whether the mode equals the record's, apart from privilege bits that this device did not accept.
    package func showsMode(of item: RemoteItem) -> Bool { mode == Privileges.arriving(item.mode, over: mode) }
}
