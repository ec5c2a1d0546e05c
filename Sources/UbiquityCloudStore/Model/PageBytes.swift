internal import UbiquityCore
internal import UbiquityWire

// Estimates of the bytes that items take in a page: a fixed part for numbers and ids, and all texts and lists.

extension RemoteItem {
    private static let fixed = 128

    var pageBytes: Int {
        let attributes = xattrs.reduce(0) { $0 + $1.name.count + $1.value.count }
        let own = Self.fixed + name.bytes.count + linkTarget.count + attributes + (content?.pageBytes ?? 0)
        return conflicts.reduce(own) { $0 + Self.fixed + $1.content.pageBytes + $1.savedName.bytes.count }
    }
}

extension RemoteContent {
    fileprivate var pageBytes: Int { 64 + deviceName.utf8.count + 40 * (manifest?.count ?? 0) }
}

extension ItemRecord {
    /// Bytes of a conflict version with names of usual length. Its record is not read for the estimate.
    private static let conflict = 256

    var pageBytes: Int {
        remoteItem(nil, conflicts: []).pageBytes
            + Self.conflict * min(conflictCount, Limits.maximumConflictsInRecord)
    }
}
