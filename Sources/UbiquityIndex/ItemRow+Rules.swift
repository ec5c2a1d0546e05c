package import UbiquityCore

// Questions about one row, and changes of one row, that need no other row.
extension ItemRow {
    // MARK: Extended attributes

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

    // MARK: Privileges

    /// Removes the privileges when content arrives from elsewhere, because they were granted to the old content. This
    /// does not mark the row dirty, so the cloud and other devices keep their bits.
    package mutating func dropPrivileges() {
        mode &= ~Privileges.bits
        localXattrs.removeAll { $0.name == Privileges.capability }
    }

    /// Returns whether the mode equals the record's, apart from privilege bits that this device did not accept.
    package func showsMode(of item: RemoteItem) -> Bool { mode == Privileges.arriving(item.mode, over: mode) }

    // MARK: Sync

    /// Requests the download of an ignore file: its rules apply here even if no program opens it.
    package mutating func wantIgnoreFile() {
        guard kind == .file, contentState != .complete, entry?.name == IgnoreRules.fileName else { return }
        flags.insert(.downloadRequested)
    }

    /// Whether the flags say that the cloud cannot know the file.
    var seemsUnsent: Bool {
        kind == .file && !isExcluded && !isLinked && contentState == .complete && dirty.contains(.created)
            && !flags.contains(.creationSent)
    }

    /// Whether the item can get a new identity that only this device has. A folder cannot, because its members would
    /// have to follow; a file without local content cannot either.
    var canLeaveSync: Bool { kind == .symlink || kind == .hardLink || kind == .file && contentState == .complete }

    /// Whether the item has several names: none of them may change whether it is synced.
    var hasSeveralNames: Bool { !kind.isSpecial && (isLinked || kind == .hardLink) }

    /// Whether the next start would take the content for the version's without verifying it.
    var isAsTheCloudHasIt: Bool {
        contentState == .complete && version != nil && !dirty.contains(.content) && !isWriting && !isExcluded
    }

    // MARK: The state of the content

    /// Returns whether the cloud has the item as it is here. This is the one definition for attributes, commands and
    /// queries.
    ///
    /// A file open for writing may differ from its content at the cloud. The cloud may have the name of another
    /// device's new file before the content. A folder is uploaded if its own row is and nothing below it is pending.
    package func isUploaded(_ remote: RemoteItem?) -> Bool { isUploaded(remote.map { RecordState($0.content) }) }

    func isUploaded(_ record: RecordState?) -> Bool {
        guard !staysHere, dirty.isEmpty, !isWriting else { return false }
        guard kind == .file, let newest = record?.version, newest == version else { return true }
        return record?.isAvailable ?? false
    }

    /// Returns whether the content is here and the cloud has a newer one.
    package func isOutdated(_ remote: RemoteItem?) -> Bool { isOutdated(remote.map { RecordState($0.content) }) }

    func isOutdated(_ record: RecordState?) -> Bool {
        guard kind == .file, contentState == .complete, !dirty.contains(.content), let newest = record?.version else {
            return false
        }
        return newest != version
    }

    /// Whether the item's share in the totals depends on the cloud's record.
    var sharesByRecord: Bool {
        guard kind == .file, !staysHere else { return false }
        return contentState == .complete && !dirty.contains(.content) || dirty.isEmpty && !isWriting
    }

    private static let sharedFlags: ItemFlags = [.writing, .excluded, .lingering, .downloadRequested]

    /// Returns whether the item's share in the totals, or the folder it belongs to, may differ from the other row's.
    func sharesOtherwise(than other: ItemRow) -> Bool {
        if entry?.parent != other.entry?.parent || dirty != other.dirty || size != other.size { return true }
        if !flags.symmetricDifference(other.flags).isDisjoint(with: Self.sharedFlags) { return true }
        return contentState != other.contentState || version != other.version || kind != other.kind || id != other.id
            || kind == .hardLink && linkTarget != other.linkTarget
    }
}
