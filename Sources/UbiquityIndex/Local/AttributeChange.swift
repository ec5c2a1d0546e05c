package import UbiquityCore

/// New values of a row's attributes; nil leaves a value unchanged.
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

extension ItemRow {
    /// Returns the row with an extended attribute set; the row is not marked dirty yet. Setting an attribute to its
    /// present value changes nothing, as on ext4.
    ///
    /// - Throws: `.alreadyExists` or `.noSuchAttribute`, depending on the mode; `.noSpace` beyond
    ///   `Limits.maximumXattrBytes`.
    package func setting(_ xattr: Xattr, _ mode: ItemIndex.XattrMode, now: Timestamp) throws(UbiquityError) -> ItemRow {
        if mode != .create, xattrs.contains(xattr) || localXattrs.contains(xattr) { return self }
        return try changingXattrs(named: xattr.name, now: now) { list throws(UbiquityError) in
            let exists = list.contains { $0.name == xattr.name }
            if exists, mode == .create { throw UbiquityError(.alreadyExists, "the attribute exists already") }
            if !exists, mode == .replace { throw UbiquityError(.noSuchAttribute, "there is no such attribute") }
            list.removeAll { $0.name == xattr.name }
            list.append(xattr)
            guard list.byteCount <= Limits.maximumXattrBytes else {
                throw UbiquityError(.noSpace, "an item's attributes are limited to \(Limits.maximumXattrBytes) bytes")
            }
            list.sort()
        }
    }

    /// Returns the row without an extended attribute. Throws `.noSuchAttribute`.
    package func removingXattr(named name: [UInt8], now: Timestamp) throws(UbiquityError) -> ItemRow {
        try changingXattrs(named: name, now: now) { list throws(UbiquityError) in
            guard list.contains(where: { $0.name == name }) else {
                throw UbiquityError(.noSuchAttribute, "there is no such attribute")
            }
            list.removeAll { $0.name == name }
        }
    }

    /// Changes the list that the name belongs to: user attributes are synced, others stay on this device.
    private func changingXattrs(
        named name: [UInt8], now: Timestamp, _ change: (inout [Xattr]) throws(UbiquityError) -> Void
    ) throws(UbiquityError) -> ItemRow {
        var row = self
        row.changedAt = now
        if name.starts(with: Array("user.".utf8)) { try change(&row.xattrs) } else { try change(&row.localXattrs) }
        let isMore = row.xattrs.count + row.localXattrs.count > xattrs.count + localXattrs.count
        let names = (row.xattrs + row.localXattrs).reduce(0) { $0 + $1.name.count + 1 }
        guard !isMore || names <= Limits.maximumXattrNames else {
            throw UbiquityError(
                .noSpace, "the names of an item's attributes are limited to \(Limits.maximumXattrNames) bytes")
        }
        return row
    }
}

extension [Xattr] {
    /// Bytes of names and values.
    var byteCount: Int { reduce(0) { $0 + $1.name.count + $1.value.count } }

    /// Returns these attributes overlaid with `newer`; only the newer ones if all together exceed the limit.
    func overlaid(with newer: [Xattr]) -> [Xattr] {
        guard !newer.isEmpty else { return self }
        let all = (filter { old in !newer.contains { $0.name == old.name } } + newer).sorted()
        return all.byteCount <= Limits.maximumXattrBytes ? all : newer
    }
}
