/// All that `ubiquity status` tells of a mount. Byte counts are since the daemon started; times are seconds since
/// 1970-01-01 UTC.
package struct MountStatus: Codable, Hashable, Sendable {
    package var mountPoint: String
    package var container: String
    package var account: String
    package var device: DeviceDescription
    package var cloud: CloudContact
    /// Position in the change feed that has been applied here.
    package var revision: Int64
    package var policy: String
    /// Bytes of content this device may keep; nil is no limit.
    package var cacheLimit: Int64?
    /// Bytes that must stay free on the disk of the state folder.
    package var diskFloor: Int64?
    /// Bytes of content that are here.
    package var cachedBytes: Int64?
    /// Bytes that the account holds, and may hold, as the cloud last reported; nil if it has not.
    package var usedBytes: Int64?
    package var quotaBytes: Int64?
    /// Path of the socket at which the daemon answers programs; nil from a daemon that does not report it.
    package var socket: String?
    package var uploads: TransferTotal
    package var downloads: TransferTotal
    /// What is pending and why, at most `maximumPendingItems`.
    package var pending: [PendingItem]
    /// How many pending items are not in the list.
    package var pendingOmitted: Int
    package var passthrough: KernelFeatureStatus
    /// The kernel's requests by io_uring; nil from a daemon that does not know of it.
    package var rings: KernelFeatureStatus?
    package var bytesSent: Int64
    package var bytesReceived: Int64
    package var processID: Int32
    package var startedAt: Double
    package var version: String
    /// Deletions that are held because they are many, until somebody confirms or undoes them.
    package var heldDeletions: Int
    /// Conflicts that nobody has decided; nil: there are none.
    package var conflicts: ConflictTotal?
    /// Who takes part in coordination, who holds what and who waits.
    package var coordination: CoordinationStatus?

    /// Pending items told one by one: a screenful or two; the totals count the rest.
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
    /// Files and packages that are in conflict.
    package var items: Int
    /// Versions that wait for a decision; until then they are kept.
    package var versions: Int
    /// Bytes of these versions.
    package var bytes: Int64
    /// Where the items are, from the container's root; at most `MountStatus.maximumPendingItems`.
    package var paths: [String]

    package init(items: Int, versions: Int, bytes: Int64, paths: [String]) {
        self.items = items
        self.versions = versions
        self.bytes = bytes
        self.paths = paths
    }
}

/// This machine, more exactly this state folder, as other devices see it.
package struct DeviceDescription: Codable, Hashable, Sendable {
    package var id: String
    package var name: String

    package init(id: String, name: String) {
        self.id = id
        self.name = name
    }
}

/// The cloud, and whether it answers.
package struct CloudContact: Codable, Hashable, Sendable {
    package enum State: String, Codable, CaseIterable, Hashable, Sendable {
        case online
        /// Away, or the mount was told to be offline; the reason says which.
        case offline
        /// Not answered yet since the start or since the connection broke.
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

/// Items and bytes on the way in one direction.
package struct TransferTotal: Codable, Hashable, Sendable {
    package var items: Int
    package var bytes: Int64

    package init(items: Int, bytes: Int64) {
        self.items = items
        self.bytes = bytes
    }
}

/// Whether the kernel serves materialised files without the daemon, or why not.
package struct KernelFeatureStatus: Codable, Hashable, Sendable {
    package var isActive: Bool
    package var reason: String?

    package init(isActive: Bool, reason: String? = nil) {
        self.isActive = isActive
        self.reason = reason
    }
}

/// An item that is not yet what it shall be: changed here and not at the cloud, or wanted here and not here.
package struct PendingItem: Codable, Hashable, Sendable {
    package enum Direction: String, Codable, CaseIterable, Hashable, Sendable {
        case upload
        case download
    }

    package enum Reason: String, Codable, CaseIterable, Hashable, Sendable {
        /// Its turn has not come, or it waits for the cloud.
        case waiting
        case transferring
        /// It failed and is tried again at `retryAt`; `error` says why it failed.
        case retrying
        /// The account has no room.
        case quota
        /// It changes so often that it is slowed down.
        case throttled
    }

    /// From the mount's root, without a slash in front.
    package var path: String
    package var direction: Direction
    package var reason: Reason
    /// Bytes still to go, if that is known.
    package var bytes: Int64?
    package var error: String?
    package var retryAt: Double?

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
