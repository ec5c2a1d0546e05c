import FoundationEssentials
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// An item's sync state, by the resource keys of `NSURL`.
///
/// A value is nil if it was not requested or the item has none. For an item outside of all mounted containers only
/// `isUbiquitousItem` is set. Reading the values downloads nothing and needs no network.
public struct UbiquitousItemResourceValues: Hashable, Sendable {
    public enum Key: String, CaseIterable, Hashable, Sendable {
        case isUbiquitousItem = "NSURLIsUbiquitousItemKey"
        case downloadingStatus = "NSURLUbiquitousItemDownloadingStatusKey"
        case downloadRequested = "NSURLUbiquitousItemDownloadRequestedKey"
        case isDownloading = "NSURLUbiquitousItemIsDownloadingKey"
        case downloadingError = "NSURLUbiquitousItemDownloadingErrorKey"
        case isUploaded = "NSURLUbiquitousItemIsUploadedKey"
        case isUploading = "NSURLUbiquitousItemIsUploadingKey"
        case uploadingError = "NSURLUbiquitousItemUploadingErrorKey"
        case hasUnresolvedConflicts = "NSURLUbiquitousItemHasUnresolvedConflictsKey"
        case containerDisplayName = "NSURLUbiquitousItemContainerDisplayNameKey"
        case isExcludedFromSync = "NSURLUbiquitousItemIsExcludedFromSyncKey"
        case isSyncPaused = "NSURLUbiquitousItemIsSyncPausedKey"
        case supportedSyncControls = "NSURLUbiquitousItemSupportedSyncControlsKey"
        case isShared = "NSURLUbiquitousItemIsSharedKey"
        case sharedItemCurrentUserRole = "NSURLUbiquitousSharedItemCurrentUserRoleKey"
        case sharedItemCurrentUserPermissions = "NSURLUbiquitousSharedItemCurrentUserPermissionsKey"
        case sharedItemOwnerNameComponents = "NSURLUbiquitousSharedItemOwnerNameComponentsKey"
        case sharedItemMostRecentEditorNameComponents = "NSURLUbiquitousSharedItemMostRecentEditorNameComponentsKey"
        case isDownloaded = "NSURLUbiquitousItemIsDownloadedKey"
        case percentDownloaded = "NSURLUbiquitousItemPercentDownloadedKey"
        case percentUploaded = "NSURLUbiquitousItemPercentUploadedKey"
    }

    /// The sync controls of a single item. There are none here; only a whole mount can be set offline.
    public struct SyncControls: OptionSet, Hashable, Sendable {
        public let rawValue: UInt
        public init(rawValue: UInt) { self.rawValue = rawValue }
        public static let pauseSync = SyncControls(rawValue: 1)
        public static let failUploadOnConflict = SyncControls(rawValue: 2)
    }

    public enum SharedItemRole: String, Hashable, Sendable {
        case owner = "NSURLUbiquitousSharedItemRoleOwner"
        case participant = "NSURLUbiquitousSharedItemRoleParticipant"
    }

    public enum SharedItemPermissions: String, Hashable, Sendable {
        case readOnly = "NSURLUbiquitousSharedItemPermissionsReadOnly"
        case readWrite = "NSURLUbiquitousSharedItemPermissionsReadWrite"
    }

    /// Whether the item is meant for the cloud. It need not be uploaded yet.
    public internal(set) var isUbiquitousItem: Bool?
    public internal(set) var ubiquitousItemDownloadingStatus: UbiquitousItemDownloadingStatus?
    public internal(set) var ubiquitousItemDownloadRequested: Bool?
    public internal(set) var ubiquitousItemIsDownloading: Bool?
    public internal(set) var ubiquitousItemDownloadingError: UbiquitousFileError?
    public internal(set) var ubiquitousItemIsUploaded: Bool?
    public internal(set) var ubiquitousItemIsUploading: Bool?
    public internal(set) var ubiquitousItemUploadingError: UbiquitousFileError?
    public internal(set) var ubiquitousItemHasUnresolvedConflicts: Bool?
    public internal(set) var ubiquitousItemContainerDisplayName: String?
    /// Whether the item is excluded by its name, an ignore file, or a folder whose name ends in `.nosync`. Read-only.
    public internal(set) var ubiquitousItemIsExcludedFromSync: Bool?
    public internal(set) var ubiquitousItemIsSyncPaused: Bool?
    public internal(set) var ubiquitousItemSupportedSyncControls: SyncControls?
    /// False: items are never shared, so role, permissions and names are nil.
    public internal(set) var ubiquitousItemIsShared: Bool?
    public internal(set) var ubiquitousSharedItemCurrentUserRole: SharedItemRole?
    public internal(set) var ubiquitousSharedItemCurrentUserPermissions: SharedItemPermissions?
    public internal(set) var ubiquitousSharedItemOwnerNameComponents: String?
    public internal(set) var ubiquitousSharedItemMostRecentEditorNameComponents: String?
    /// Whether some content is here. On Apple systems the downloading status replaces this key.
    public internal(set) var ubiquitousItemIsDownloaded: Bool?
    /// 0 to 100.
    public internal(set) var ubiquitousItemPercentDownloaded: Double?
    public internal(set) var ubiquitousItemPercentUploaded: Double?
}

/// An item at a URL, with its resource values.
public struct UbiquitousItem: Hashable, Sendable {
    public typealias Key = UbiquitousItemResourceValues.Key

    public let url: URL

    public init(at url: URL) { self.url = url }

    /// Reads the values for the keys. It asks only the file system and opens no file.
    ///
    /// - Throws: `UbiquitousFileError`: `.fileNoSuchFile`, `.fileReadNoPermission`, or
    ///   `.ubiquitousFileUbiquityServerNotAvailable` if the mount is dead.
    public func resourceValues(forKeys keys: Set<Key> = Set(Key.allCases)) throws -> UbiquitousItemResourceValues {
        do {
            return try ResourceValueReader(path: url.path).values(of: keys)
        } catch {
            throw UbiquitousFileError.from(error, isWriting: false)
        }
    }

    /// Reads the same values on a thread that may block, so a hanging file system does not stop other tasks.
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
