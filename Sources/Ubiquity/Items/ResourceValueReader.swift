import UbiquityCore
import UbiquitySystem

/// Reads an item's resource values from its extended attributes `user.ubiquity.*`.
struct ResourceValueReader {
    let path: String

    func values(of keys: Set<UbiquitousItem.Key>) throws -> UbiquitousItemResourceValues {
        let status = try describing("examine the item", at: path) { () throws(Errno) in try FileSystem.status(path) }
        var values = UbiquitousItemResourceValues()
        guard let place = try MountFinder.find(path) else {
            if keys.contains(.isUbiquitousItem) { values.isUbiquitousItem = false }
            return values
        }
        // Linux has no user attributes on symlinks, so their values follow from the path.
        guard !status.isSymlink else {
            if keys.contains(.isUbiquitousItem) { values.isUbiquitousItem = !Self.isKeptLocal(place.relativePath) }
            if keys.contains(.downloadingStatus) { values.ubiquitousItemDownloadingStatus = .current }
            return values
        }
        for key in keys { try read(key, into: &values) }
        return values
    }

    private static func isKeptLocal(_ path: [UInt8]) -> Bool {
        let mark = Array(".nosync".utf8)
        return path.split(separator: UInt8(ascii: "/")).contains { $0.suffix(mark.count).elementsEqual(mark) }
    }

    private func read(_ key: UbiquitousItem.Key, into values: inout UbiquitousItemResourceValues) throws {
        switch key {
        case .isUbiquitousItem: values.isUbiquitousItem = try flag("is-ubiquitous") ?? false
        case .isExcludedFromSync: values.ubiquitousItemIsExcludedFromSync = try flag("is-excluded-from-sync")
        case .hasUnresolvedConflicts: values.ubiquitousItemHasUnresolvedConflicts = try flag("has-unresolved-conflicts")
        case .containerDisplayName: values.ubiquitousItemContainerDisplayName = try text("container")
        case .isSyncPaused: values.ubiquitousItemIsSyncPaused = false
        case .supportedSyncControls: values.ubiquitousItemSupportedSyncControls = []
        case .isShared: values.ubiquitousItemIsShared = false
        case .sharedItemCurrentUserRole, .sharedItemCurrentUserPermissions, .sharedItemOwnerNameComponents,
            .sharedItemMostRecentEditorNameComponents:
            break
        default: try readTransfer(key, into: &values)
        }
    }

    private func readTransfer(_ key: UbiquitousItem.Key, into values: inout UbiquitousItemResourceValues) throws {
        switch key {
        case .downloadingStatus: values.ubiquitousItemDownloadingStatus = try status()
        case .isDownloaded: values.ubiquitousItemIsDownloaded = try status().map { $0 != .notDownloaded }
        case .downloadRequested: values.ubiquitousItemDownloadRequested = try flag("download-requested")
        case .isDownloading: values.ubiquitousItemIsDownloading = try flag("is-downloading")
        case .percentDownloaded: values.ubiquitousItemPercentDownloaded = try number("percent-downloaded")
        case .downloadingError: values.ubiquitousItemDownloadingError = try error("downloading-error")
        case .isUploaded: values.ubiquitousItemIsUploaded = try flag("is-uploaded")
        case .isUploading: values.ubiquitousItemIsUploading = try flag("is-uploading")
        case .percentUploaded: values.ubiquitousItemPercentUploaded = try number("percent-uploaded")
        case .uploadingError: values.ubiquitousItemUploadingError = try error("uploading-error")
        default: break
        }
    }

    private func status() throws(UbiquityError) -> UbiquitousItemDownloadingStatus? {
        try text("downloading-status").flatMap(UbiquitousItemDownloadingStatus.init(attribute:))
    }

    private func error(_ name: String) throws(UbiquityError) -> UbiquitousFileError? {
        UbiquitousFileError.reported(code: try text(name + "-code"), reason: try text(name))
    }

    private func number(_ name: String) throws(UbiquityError) -> Double? { try text(name).flatMap(Double.init) }

    private func flag(_ name: String) throws(UbiquityError) -> Bool? { try text(name).map { $0 == "1" } }

    /// Nil for an attribute that does not exist, because the daemon is older.
    private func text(_ name: String) throws(UbiquityError) -> String? {
        let bytes = try describing("read the item's state", at: path) { () throws(Errno) in
            try FileSystem.xattr(path, "user.ubiquity.\(name)")
        }
        return bytes.map { String(decoding: $0, as: UTF8.self) }
    }
}
