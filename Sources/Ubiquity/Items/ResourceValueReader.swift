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
        for key in keys { try read(key, status, into: &values) }
        return values
    }

    private static func isKeptLocal(_ path: [UInt8]) -> Bool {
        let mark = Array(".nosync".utf8)
        return path.split(separator: UInt8(ascii: "/")).contains { $0.suffix(mark.count).elementsEqual(mark) }
    }

    private func read(
        _ key: UbiquitousItem.Key, _ status: FileStatus, into values: inout UbiquitousItemResourceValues
    ) throws {
        switch key {
        case .isUbiquitousItem: values.isUbiquitousItem = try flag(.isUbiquitous) ?? false
        case .isExcludedFromSync: values.ubiquitousItemIsExcludedFromSync = try flag(.isExcludedFromSync)
        case .hasUnresolvedConflicts: values.ubiquitousItemHasUnresolvedConflicts = try flag(.hasUnresolvedConflicts)
        case .containerDisplayName: values.ubiquitousItemContainerDisplayName = try text(.container)
        case .isSyncPaused: values.ubiquitousItemIsSyncPaused = try flag(.isSyncPaused) ?? false
        case .supportedSyncControls:
            let isFile = try flag(.isUbiquitous) == true && status.isFile
            values.ubiquitousItemSupportedSyncControls = isFile ? [.pauseSync, .failUploadOnConflict] : []
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
        case .downloadRequested: values.ubiquitousItemDownloadRequested = try flag(.downloadRequested)
        case .isDownloading: values.ubiquitousItemIsDownloading = try flag(.isDownloading)
        case .percentDownloaded: values.ubiquitousItemPercentDownloaded = try number(.percentDownloaded)
        case .downloadingError:
            values.ubiquitousItemDownloadingError = try error(.downloadingError, .downloadingErrorCode)
        case .isUploaded: values.ubiquitousItemIsUploaded = try flag(.isUploaded)
        case .isUploading: values.ubiquitousItemIsUploading = try flag(.isUploading)
        case .percentUploaded: values.ubiquitousItemPercentUploaded = try number(.percentUploaded)
        case .uploadingError: values.ubiquitousItemUploadingError = try error(.uploadingError, .uploadingErrorCode)
        default: break
        }
    }

    private func status() throws(UbiquityError) -> UbiquitousItemDownloadingStatus? {
        try text(.downloadingStatus).flatMap(UbiquitousItemDownloadingStatus.init(attribute:))
    }

    private func error(
        _ reason: StatusAttribute, _ code: StatusAttribute
    ) throws(UbiquityError) -> UbiquitousFileError? {
        UbiquitousFileError.reported(code: try text(code), reason: try text(reason))
    }

    private func number(_ attribute: StatusAttribute) throws(UbiquityError) -> Double? {
        try text(attribute).flatMap(Double.init)
    }

    private func flag(_ attribute: StatusAttribute) throws(UbiquityError) -> Bool? {
        try text(attribute).map { $0 == "1" }
    }

    /// Nil for an attribute that does not exist, because the daemon is older.
    private func text(_ attribute: StatusAttribute) throws(UbiquityError) -> String? {
        let bytes = try describing("read the item's state", at: path) { () throws(Errno) in
            try FileSystem.xattr(path, attribute.attribute)
        }
        return bytes.map { String(decoding: $0, as: UTF8.self) }
    }
}
