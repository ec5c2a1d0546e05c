/// The status of a mount, as `ubiquity status` shows it. Byte counts are since the daemon started; times are seconds
/// since 1970-01-01 UTC.
package struct MountStatus: Codable, Hashable, Sendable {
    package var mountPoint: String
    package var container: String
    package var account: String
    package var device: DeviceDescription
    package var cloud: CloudContact
    /// Position in the change feed up to which changes are applied here.
    package var revision: Int64
    package var policy: String
    /// Bytes of content this device may keep; nil for no limit.
    package var cacheLimit: Int64?
    /// Bytes that must stay free on the disk of the state folder.
    package var diskFloor: Int64?
    /// Bytes of content on this device.
    package var cachedBytes: Int64?
    /// The account's usage and quota in bytes, as the cloud last reported them; nil before that.
    package var usedBytes: Int64?
    package var quotaBytes: Int64?
    /// Path of the socket at which the daemon answers programs; nil from a daemon that does not report it.
    package var socket: String?
    package var uploads: TransferTotal
    package var downloads: TransferTotal
    /// Pending items with their reasons, at most `maximumPendingItems`.
    package var pending: [PendingItem]
    /// Number of pending items not in the list.
    package var pendingOmitted: Int
    package var passthrough: KernelFeatureStatus
    /// Whether the kernel's requests come by io_uring; nil from a daemon that does not know it.
    package var rings: KernelFeatureStatus?
    package var bytesSent: Int64
    package var bytesReceived: Int64
    package var processID: Int32
    package var startedAt: Double
    package var version: String
    /// Deletions on hold because there are many, until the user confirms or undoes them.
    package var heldDeletions: Int
    /// Undecided conflicts; nil if there are none.
    package var conflicts: ConflictTotal?
    /// Coordination clients, granted claims and waiting claims.
    package var coordination: CoordinationStatus?

    /// Number of pending items in the list: a screenful or two; the totals count the others.
    package static let maximumPendingItems = 100

    package init(
        mountPoint: String, container: String, account: String, device: DeviceDescription, cloud: CloudContact,
        revision: Int64, policy: String, cacheLimit: Int64?, diskFloor: Int64?, cachedBytes: Int64?,
        uploads: TransferTotal, downloads: TransferTotal, pending: [PendingItem], pendingOmitted: Int,
        passthrough: KernelFeatureStatus, rings: KernelFeatureStatus? = nil, bytesSent: Int64, bytesReceived: Int64,
        processID: Int32, startedAt: Double, version: String, heldDeletions: Int = 0, conflicts: ConflictTotal? = nil,
        coordination: CoordinationStatus? = nil
    ) {
        self.mountPoint = mountPoint
        self.container = container
        self.account = account
        self.device = device
        self.cloud = cloud
        self.revision = revision
        self.policy = policy
        self.cacheLimit = cacheLimit
        self.diskFloor = diskFloor
        self.cachedBytes = cachedBytes
        self.uploads = uploads
        self.downloads = downloads
        self.pending = pending
        self.pendingOmitted = pendingOmitted
        self.passthrough = passthrough
        self.rings = rings
        self.bytesSent = bytesSent
        self.bytesReceived = bytesReceived
        self.processID = processID
        self.startedAt = startedAt
        self.version = version
        self.heldDeletions = heldDeletions
        self.conflicts = conflicts
        self.coordination = coordination
    }
}

/// Unresolved conflicts of a container.
package struct ConflictTotal: Codable, Hashable, Sendable {
    /// Number of files and packages in conflict.
    package var items: Int
    /// Number of versions that wait for a decision; they are kept until then.
    package var versions: Int
    /// Size of these versions in bytes.
    package var bytes: Int64
    /// Paths of the items from the container's root; at most `MountStatus.maximumPendingItems`.
    package var paths: [String]

    package init(items: Int, versions: Int, bytes: Int64, paths: [String]) {
        self.items = items
        self.versions = versions
        self.bytes = bytes
        self.paths = paths
    }
}

/// This device (one state folder), as other devices see it.
package struct DeviceDescription: Codable, Hashable, Sendable {
    package var id: String
    package var name: String

    package init(id: String, name: String) {
        self.id = id
        self.name = name
    }
}

/// The connection to the cloud.
package struct CloudContact: Codable, Hashable, Sendable {
    package enum State: String, Codable, CaseIterable, Hashable, Sendable {
        case online
        /// The cloud is unreachable, or the mount was set offline; the reason tells which.
        case offline
        /// No answer yet since the start or since the connection broke.
        case connecting
        case signedOut = "signed-out"
    }

    /// A URL, or the path of the embedded cloud's socket.
    package var address: String
    package var state: State
    /// Why it is not online.
    package var reason: String?
    /// When the cloud last answered.
    package var lastContact: Double?

    package init(address: String, state: State, reason: String? = nil, lastContact: Double? = nil) {
        self.address = address
        self.state = state
        self.reason = reason
        self.lastContact = lastContact
    }
}

/// Pending items and bytes in one direction.
package struct TransferTotal: Codable, Hashable, Sendable {
    package var items: Int
    package var bytes: Int64

    package init(items: Int, bytes: Int64) {
        self.items = items
        self.bytes = bytes
    }
}

/// Whether the kernel serves downloaded files without the daemon, or why not.
package struct KernelFeatureStatus: Codable, Hashable, Sendable {
    package var isActive: Bool
    package var reason: String?

    package init(isActive: Bool, reason: String? = nil) {
        self.isActive = isActive
        self.reason = reason
    }
}

/// An item with a pending transfer: changed here and not uploaded, or wanted here and not downloaded.
package struct PendingItem: Codable, Hashable, Sendable {
    package enum Direction: String, Codable, CaseIterable, Hashable, Sendable {
        case upload
        case download
    }

    package enum Reason: String, Codable, CaseIterable, Hashable, Sendable {
        /// It waits for its turn or for the cloud.
        case waiting
        case transferring
        /// It failed and is tried again at `retryAt`; `error` has the reason.
        case retrying
        /// The account's quota is exhausted.
        case quota
        /// It changes so often that its uploads are throttled.
        case throttled
    }

    /// From the mount's root, without a slash in front.
    package var path: String
    package var direction: Direction
    package var reason: Reason
    /// Remaining bytes, if known.
    package var bytes: Int64?
    package var error: String?
    package var retryAt: Double?
    /// The reason in detail.
    package var waits: TransferWait?

    package init(
        path: String, direction: Direction, reason: Reason, bytes: Int64? = nil, error: String? = nil,
        retryAt: Double? = nil
    ) {
        self.path = path
        self.direction = direction
        self.reason = reason
        self.bytes = bytes
        self.error = error
        self.retryAt = retryAt
    }
}
