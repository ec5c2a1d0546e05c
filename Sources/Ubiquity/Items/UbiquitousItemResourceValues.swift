import FoundationEssentials
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// What is known of an item's way to the cloud and back, by the keys of `NSURL`.
///
/// A value is nil if it was not asked for, or if the item has none: of an item outside of all mounted containers only
/// `isUbiquitousItem` is known. Asking downloads nothing and needs no network.
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

    /// What can be done about one item's sync by itself: here nothing, the whole mount can be set offline.
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

    /// Whether the item is meant for the cloud; not that it is there.
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
    /// By its name, an ignore file, or a folder whose name ends in `.nosync`; it is not set here.
    public internal(set) var ubiquitousItemIsExcludedFromSync: Bool?
    public internal(set) var ubiquitousItemIsSyncPaused: Bool?
    public internal(set) var ubiquitousItemSupportedSyncControls: SyncControls?
    /// There are no shared items: each is the current user's own. (So role, permissions and names are nil.)
    public internal(set) var ubiquitousItemIsShared: Bool?
    public internal(set) var ubiquitousSharedItemCurrentUserRole: SharedItemRole?
    public internal(set) var ubiquitousSharedItemCurrentUserPermissions: SharedItemPermissions?
    public internal(set) var ubiquitousSharedItemOwnerNameComponents: String?
    public internal(set) var ubiquitousSharedItemMostRecentEditorNameComponents: String?
    /// Some content is here. (The original has put the status in the place of it.)
    public internal(set) var ubiquitousItemIsDownloaded: Bool?
    /// 0 to 100.
    public internal(set) var ubiquitousItemPercentDownloaded: Double?
    public internal(set) var ubiquitousItemPercentUploaded: Double?
}

/// An item at a place, and what can be asked of it.
public struct UbiquitousItem: Hashable, Sendable {
    public typealias Key = UbiquitousItemResourceValues.Key

    public let url: URL

    public init(at url: URL) { self.url = url }

    /// The values of some keys. It asks the file system, not the network, and opens nothing.
    /// Throws `UbiquitousFileError`: `.fileNoSuchFile`, `.fileReadNoPermission`,
    /// `.ubiquitousFileUbiquityServerNotAvailable` if the mount is dead.
    public func resourceValues(forKeys keys: Set<Key> = Set(Key.allCases)) throws -> UbiquitousItemResourceValues {
        do {
            return try ResourceValueReader(path: url.path).values(of: keys)
        } catch {
            throw UbiquitousFileError.from(error, isWriting: false)
        }
    }

    /// The same, on a thread that may wait: for where a file system that hangs must not stop others.
    public func resourceValues(
        forKeys keys: Set<Key> = Set(Key.allCases)
    ) async throws -> UbiquitousItemResourceValues {
        try await ItemThreads.pool.run { try resourceValues(forKeys: keys) }
    }
}

/// Threads for calls of the file system.
enum ItemThreads {
    /// Some, because a mount that hangs holds one for each call to it.
    static let pool = BlockingPool(name: "ubiquity-items", threads: 4)
}
