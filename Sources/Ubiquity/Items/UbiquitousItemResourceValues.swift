import FoundationEssentials
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// An item's sync state, by the resource keys of `NSURL`.
///
/// A value is nil if it was not requested or the item has none. For an item outside of all mounted containers only
/// `isUbiquitousItem` is set. Reading the values downloads nothing and needs no network.
///
/// - Source: `URLResourceValues`.
public struct UbiquitousItemResourceValues: Hashable, Sendable {
    /// The keys of the values.
    public enum Key: String, CaseIterable, Hashable, Sendable {
        /// Whether the item is meant for the cloud. It need not be uploaded yet.
        case isUbiquitousItem = "NSURLIsUbiquitousItemKey"
        /// Whether the content is on this device, and whether it is the newest that the device knows.
        case downloadingStatus = "NSURLUbiquitousItemDownloadingStatusKey"
        /// Whether a program or a person has asked for a download that is not finished.
        case downloadRequested = "NSURLUbiquitousItemDownloadRequestedKey"
        /// Whether a download is running.
        case isDownloading = "NSURLUbiquitousItemIsDownloadingKey"
        /// The reason why the last download failed; none after the next success.
        case downloadingError = "NSURLUbiquitousItemDownloadingErrorKey"
        /// Whether the cloud has the current content and attributes.
        case isUploaded = "NSURLUbiquitousItemIsUploadedKey"
        /// Whether an upload is running.
        case isUploading = "NSURLUbiquitousItemIsUploadingKey"
        /// The reason why the last upload failed; none after the next success.
        case uploadingError = "NSURLUbiquitousItemUploadingErrorKey"
        /// Whether the item has conflict versions that nobody has resolved.
        case hasUnresolvedConflicts = "NSURLUbiquitousItemHasUnresolvedConflictsKey"
        /// The name of the container for people.
        case containerDisplayName = "NSURLUbiquitousItemContainerDisplayNameKey"
        /// Whether the item stays on this device, by its name, an ignore file, or a `.nosync` folder.
        case isExcludedFromSync = "NSURLUbiquitousItemIsExcludedFromSyncKey"
        /// Whether a program has paused the sync of the file.
        case isSyncPaused = "NSURLUbiquitousItemIsSyncPausedKey"
        /// The sync controls that the item supports.
        case supportedSyncControls = "NSURLUbiquitousItemSupportedSyncControlsKey"
        /// Whether the item is shared with other accounts: always false.
        case isShared = "NSURLUbiquitousItemIsSharedKey"
        /// The user's role in a shared item: always nil.
        case sharedItemCurrentUserRole = "NSURLUbiquitousSharedItemCurrentUserRoleKey"
        /// The user's permissions in a shared item: always nil.
        case sharedItemCurrentUserPermissions = "NSURLUbiquitousSharedItemCurrentUserPermissionsKey"
        /// The name of a shared item's owner: always nil.
        case sharedItemOwnerNameComponents = "NSURLUbiquitousSharedItemOwnerNameComponentsKey"
        /// The name of a shared item's last editor: always nil.
        case sharedItemMostRecentEditorNameComponents = "NSURLUbiquitousSharedItemMostRecentEditorNameComponentsKey"
        /// Whether a content is on this device, current or not.
        case isDownloaded = "NSURLUbiquitousItemIsDownloadedKey"
        /// The downloaded part of the content, from 0 to 100.
        case percentDownloaded = "NSURLUbiquitousItemPercentDownloadedKey"
        /// The uploaded part of the content, from 0 to 100.
        case percentUploaded = "NSURLUbiquitousItemPercentUploadedKey"
    }

    /// The sync controls of a single item: files of a container have all of them, folders none.
    public struct SyncControls: OptionSet, Hashable, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// A single item's sync can be paused.
        public static let pauseSync = SyncControls(rawValue: 1)
        /// An upload can fail on a conflict instead of making a conflict version.
        public static let failUploadOnConflict = SyncControls(rawValue: 2)
    }

    /// The user's role in a shared item.
    public enum SharedItemRole: String, Hashable, Sendable {
        /// The user shares the item.
        case owner = "NSURLUbiquitousSharedItemRoleOwner"
        /// The user takes part in the share.
        case participant = "NSURLUbiquitousSharedItemRoleParticipant"
    }

    /// The user's permissions in a shared item.
    public enum SharedItemPermissions: String, Hashable, Sendable {
        /// The user can read the item.
        case readOnly = "NSURLUbiquitousSharedItemPermissionsReadOnly"
        /// The user can read and write the item.
        case readWrite = "NSURLUbiquitousSharedItemPermissionsReadWrite"
    }

    /// Makes values to be set: all are nil.
    public init() {}

    /// Whether the item is meant for the cloud. It need not be uploaded yet.
    public internal(set) var isUbiquitousItem: Bool?
    /// Whether the content is on this device, and whether it is the newest that the device knows.
    public internal(set) var ubiquitousItemDownloadingStatus: UbiquitousItemDownloadingStatus?
    /// Whether a program or a person has asked for a download that is not finished.
    public internal(set) var ubiquitousItemDownloadRequested: Bool?
    /// Whether a download is running.
    public internal(set) var ubiquitousItemIsDownloading: Bool?
    /// The reason why the last download failed; none after the next success.
    public internal(set) var ubiquitousItemDownloadingError: UbiquitousFileError?
    /// Whether the cloud has the current content and attributes.
    public internal(set) var ubiquitousItemIsUploaded: Bool?
    /// Whether an upload is running.
    public internal(set) var ubiquitousItemIsUploading: Bool?
    /// The reason why the last upload failed; none after the next success.
    public internal(set) var ubiquitousItemUploadingError: UbiquitousFileError?
    /// Whether the item has conflict versions that nobody has resolved.
    public internal(set) var ubiquitousItemHasUnresolvedConflicts: Bool?
    /// The name of the container for people.
    public internal(set) var ubiquitousItemContainerDisplayName: String?
    /// Whether the item is excluded by its name, an ignore file, or a folder whose name ends in `.nosync`.
    /// `UbiquitousItem.setResourceValues` sets it.
    public var ubiquitousItemIsExcludedFromSync: Bool?
    /// Whether a program has paused the sync of the file.
    public internal(set) var ubiquitousItemIsSyncPaused: Bool?
    /// The sync controls that the item supports.
    public internal(set) var ubiquitousItemSupportedSyncControls: SyncControls?
    /// False: items are never shared, so role, permissions and names are nil.
    public internal(set) var ubiquitousItemIsShared: Bool?
    /// The user's role in a shared item: always nil.
    public internal(set) var ubiquitousSharedItemCurrentUserRole: SharedItemRole?
    /// The user's permissions in a shared item: always nil.
    public internal(set) var ubiquitousSharedItemCurrentUserPermissions: SharedItemPermissions?
    /// The name of a shared item's owner: always nil.
    public internal(set) var ubiquitousSharedItemOwnerNameComponents: String?
    /// The name of a shared item's last editor: always nil.
    public internal(set) var ubiquitousSharedItemMostRecentEditorNameComponents: String?
    /// Whether some content is here. On Apple systems the downloading status replaces this key.
    public internal(set) var ubiquitousItemIsDownloaded: Bool?
    /// 0 to 100.
    public internal(set) var ubiquitousItemPercentDownloaded: Double?
    /// The uploaded part of the content, from 0 to 100.
    public internal(set) var ubiquitousItemPercentUploaded: Double?
}

extension UbiquitousItemResourceValues {
    /// Returns the keys whose values differ.
    func differences(from other: UbiquitousItemResourceValues) -> Set<Key> {
        Set(Key.allCases.filter { self[$0] != other[$0] })
    }

    private subscript(key: Key) -> AnyHashable? {
        switch key {
        case .isUbiquitousItem: isUbiquitousItem
        case .downloadingStatus: ubiquitousItemDownloadingStatus
        case .downloadRequested: ubiquitousItemDownloadRequested
        case .isDownloading: ubiquitousItemIsDownloading
        case .downloadingError: ubiquitousItemDownloadingError
        case .isUploaded: ubiquitousItemIsUploaded
        case .isUploading: ubiquitousItemIsUploading
        case .uploadingError: ubiquitousItemUploadingError
        case .hasUnresolvedConflicts: ubiquitousItemHasUnresolvedConflicts
        case .containerDisplayName: ubiquitousItemContainerDisplayName
        case .isExcludedFromSync: ubiquitousItemIsExcludedFromSync
        case .isSyncPaused: ubiquitousItemIsSyncPaused
        case .supportedSyncControls: ubiquitousItemSupportedSyncControls
        case .isDownloaded: ubiquitousItemIsDownloaded
        case .percentDownloaded: ubiquitousItemPercentDownloaded
        case .percentUploaded: ubiquitousItemPercentUploaded
        // Items are never shared, so these values never change.
        case .isShared, .sharedItemCurrentUserRole, .sharedItemCurrentUserPermissions, .sharedItemOwnerNameComponents,
            .sharedItemMostRecentEditorNameComponents:
            nil
        }
    }
}

/// An item at a URL, with its resource values.
///
/// - Source: this library; on Apple systems `URL` has these values.
public struct UbiquitousItem: Hashable, Sendable {
    /// The keys of the values.
    public typealias Key = UbiquitousItemResourceValues.Key

    /// The URL of the item.
    public let url: URL

    /// Makes an item for a URL. It need not exist.
    ///
    /// - Parameter url: The URL of the item.
    public init(at url: URL) { self.url = url }

    /// Reads the values for the keys. It asks only the file system and opens no file.
    ///
    /// - Parameter keys: The values to read.
    /// - Throws: `UbiquitousFileError`: `.fileNoSuchFile`, `.fileReadNoPermission`, or
    ///   `.ubiquitousFileUbiquityServerNotAvailable` if the mount is dead.
    public func resourceValues(forKeys keys: Set<Key> = Set(Key.allCases)) throws -> UbiquitousItemResourceValues {
        do {
            return try ResourceValueReader(path: url.path).values(of: keys)
        } catch {
            throw UbiquitousFileError.from(error, isWriting: false)
        }
    }

    /// Sets the values that can be set: `ubiquitousItemIsExcludedFromSync`. Other values and nil change nothing.
    ///
    /// An excluded item stays on this device and is deleted on the others. The exclusion is a rule in the folder's file
    /// `.ubiquityignore`, so the name is excluded on all devices. An item that is no longer excluded is uploaded within
    /// 15 seconds.
    ///
    /// - Parameter values: The new values.
    /// - Throws: `UbiquitousFileError`: `.fileNoSuchFile`, `.fileReadUnknown` outside of all containers,
    ///   `.fileLocking` if another rule keeps the item in sync.
    public func setResourceValues(_ values: UbiquitousItemResourceValues) async throws {
        guard let isExcluded = values.ubiquitousItemIsExcludedFromSync else { return }
        try await mappingFileErrors(isWriting: true) {
            let coordinator = FileCoordinator()
            try await coordinator.coordinate(writingItemAt: url, options: .forMoving) { place in
                let path = place.systemPath
                try await FileAccess.waiting { try SyncExclusion(path: path).set(isExcluded) }
            }
        }
    }

    /// Reads the same values on a thread that may block, so a hanging file system does not stop other tasks.
    ///
    /// - Parameter keys: The values to read.
    /// - Throws: `UbiquitousFileError`, as the blocking call.
    public func resourceValues(
        forKeys keys: Set<Key> = Set(Key.allCases)
    ) async throws -> UbiquitousItemResourceValues {
        try await ItemThreads.pool.run { try resourceValues(forKeys: keys) }
    }
}

/// Threads for file system calls.
enum ItemThreads {
    /// More than one thread, because a hanging mount blocks one for each call.
    static let pool = BlockingPool(name: "ubiquity-items", threads: 4)
}
