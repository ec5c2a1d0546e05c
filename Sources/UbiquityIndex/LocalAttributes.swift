package import UbiquityCore

/// New values of a row's attributes; nil is unchanged.
package struct AttributeChange: Sendable {
    package var mode: UInt32?
    package var uid: UInt32?
    package var gid: UInt32?
    package var modifiedAt: Timestamp?

    package init(mode: UInt32? = nil, uid: UInt32? = nil, gid: UInt32? = nil, modifiedAt: Timestamp? = nil) {
        self.mode = mode
        self.uid = uid
        self.gid = gid
        self.modifiedAt = modifiedAt
    }
}

extension ItemIndex {
    /// Changes a live item by inode number. Throws `.stale` if the inode is no item (any more).
    func change(ino: UInt64, _ kind: IndexEvent.Kind, _ body: (IndexTransaction, inout ItemRow) throws -> Void) throws
        -> ItemRow
    {
        try write(.local) { transaction in
            guard let before = try transaction.row(ino: ino), !before.isDeleted else {
                throw UbiquityError(.stale, "the item is gone")
            }
            var row = before
            try body(transaction, &row)
            guard row != before else { return row }
            try transaction.update(row, before: before)
            transaction.note(kind, before: before, after: row)
            return row
        }
    }

    /// - Parameter time: when; nil is now.
    package func setAttributes(
        ino: UInt64, _ attributes: AttributeChange, at time: Timestamp? = nil
    ) throws -> ItemRow {
        try requireRoom(for: .changes)
        let now = time ?? timekeeper.now()
        return try change(ino: ino, .attributes) { transaction, row in
            row.changedAt = now
            if let uid = attributes.uid { row.uid = uid }
            if let gid = attributes.gid { row.gid = gid }
            if let mode = attributes.mode.map({ $0 & 0o7777 }), mode != row.mode {
                row.mode = mode
                try transaction.markDirty(&row, .mode, now: now)
            }
            if let modified = attributes.modifiedAt, modified != row.modifiedAt {
                row.modifiedAt = modified
                try transaction.markDirty(&row, .times, now: now)
            }
        }
    }

    package enum XattrMode: Sendable { case any, create, replace }

    /// Sets an extended attribute. Names in `user.` are synced, others stay here.
    /// Throws `.alreadyExists` / `.noSuchAttribute` by the mode, `.noSpace` beyond `Limits.maximumXattrBytes`.
    package func setXattr(ino: UInt64, _ xattr: Xattr, _ mode: XattrMode) throws {
        try requireRoom(for: .all)
        let now = timekeeper.now()
        _ = try change(ino: ino, .attributes) { transaction, row in
            try transaction.take(row.setting(xattr, mode, now: now), in: &row, now: now)
        }
    }

    /// Removes an extended attribute. Throws `.noSuchAttribute`.
    package func removeXattr(ino: UInt64, named name: [UInt8]) throws {
        let now = timekeeper.now()
        _ = try change(ino: ino, .attributes) { transaction, row in
            try transaction.take(row.removingXattr(named: name, now: now), in: &row, now: now)
        }
    }
}

extension ItemRow {
    /// It with an extended attribute set; nothing says yet that a synced one must go up. One that is set to what it is
    /// is no change, as on ext4.
    ///
    /// Throws `.alreadyExists` / `.noSuchAttribute` by the mode, `.noSpace` beyond `Limits.maximumXattrBytes`.
    package func setting(_ xattr: Xattr, _ mode: ItemIndex.XattrMode, now: Timestamp) throws(UbiquityError) -> ItemRow {
        if mode != .create, xattrs.contains(xattr) || localXattrs.contains(xattr) { return self }
        return try changingXattrs(named: xattr.name, now: now) { list throws(UbiquityError) in
            let exists = list.contains { $0.name == xattr.name }
            if exists, mode == .create { throw UbiquityError(.alreadyExists, "the attribute exists") }
            if !exists, mode == .replace { throw UbiquityError(.noSuchAttribute, "there is no such attribute") }
            list.removeAll { $0.name == xattr.name }
            list.append(xattr)
            guard list.byteCount <= Limits.maximumXattrBytes else {
                throw UbiquityError(.noSpace, "an item's attributes are limited to \(Limits.maximumXattrBytes) bytes")
            }
            list.sort()
        }
    }

    /// It without an extended attribute. Throws `.noSuchAttribute`.
    package func removingXattr(named name: [UInt8], now: Timestamp) throws(UbiquityError) -> ItemRow {
        try changingXattrs(named: name, now: now) { list throws(UbiquityError) in
            guard list.contains(where: { $0.name == name }) else {
                throw UbiquityError(.noSuchAttribute, "there is no such attribute")
            }
            list.removeAll { $0.name == name }
        }
    }

    /// Those of users are synced, the others stay here.
    private func changingXattrs(
        named name: [UInt8], now: Timestamp, _ change: (inout [Xattr]) throws(UbiquityError) -> Void
    ) throws(UbiquityError) -> ItemRow {
        var row = self
        row.changedAt = now
        if name.starts(with: Array("user.".utf8)) { try change(&row.xattrs) } else { try change(&row.localXattrs) }
        let isMore = row.xattrs.count + row.localXattrs.count > xattrs.count + localXattrs.count
        let names = (row.xattrs + row.localXattrs).reduce(0) { $0 + $1.name.count + 1 }
        guard !isMore || names <= Limits.maximumXattrNames else {
            throw UbiquityError(.noSpace, "an item's attributes are more than can be listed")
        }
        return row
    }
}

extension [Xattr] {
    /// Bytes of names and values.
    var byteCount: Int { reduce(0) { $0 + $1.name.count + $1.value.count } }

    /// These with `newer` put over them; only the newer ones if all together are more than an item may have.
    func overlaid(with newer: [Xattr]) -> [Xattr] {
        guard !newer.isEmpty else { return self }
        let all = (filter { old in !newer.contains { $0.name == old.name } } + newer).sorted()
        return all.byteCount <= Limits.maximumXattrBytes ? all : newer
    }
}

extension IndexTransaction {
    fileprivate func take(_ changed: ItemRow, in row: inout ItemRow, now: Timestamp) throws {
        let before = row.xattrs
        row = changed
        try markXattrs(&row, from: before, now: now)
    }
}
