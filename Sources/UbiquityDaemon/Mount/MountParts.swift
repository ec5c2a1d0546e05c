import Logging
import UbiquityCloudClient
import UbiquityContent
import UbiquityCoordination
import UbiquityCore
import UbiquityFUSE
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS
import UbiquityWire

/// A container's parts that work without a mount.
struct IdleParts: Sendable {
    var account: String
    var identity: DeviceIdentity
    var index: ItemIndex
    var contents: ContentStore
    var client: CloudClient
    var service: any CloudService
    /// The cloud of this machine, if it is the one in use.
    var embeddedCloud: EmbeddedCloud?
    var engine: SyncEngine
    var pool: BlockingPool
}

/// The features of the kernel that the mount uses if they are available.
struct KernelFeatures: Sendable {
    var passthrough: KernelPassthrough
    var rings: RequestRings
}

/// All parts of a running mount.
@dynamicMemberLookup
struct MountParts: Sendable {
    var idle: IdleParts
    var settings: MountSettings
    var folder: ContainerFolder
    /// The folder that is the mount's source, and contains its socket. It was `folder` when the mount began.
    var home: ContainerFolder
    /// The raw file system, for the engine and the commands. Programs do not reach it.
    var fileSystem: ContainerFileSystem
    /// The file system that programs see.
    var claimedFileSystem: ClaimedFileSystem
    var kernel: KernelFeatures
    var coordination: Coordination
    var presenters: PresenterPump
    var previews: EarlyPreviews
    /// Nil if the configuration turns them off.
    var keyValues: MountKeyValues?
    var timekeeper: any Timekeeper
    var startedAt: Timestamp
    var logger: Logger
    /// The file behind the logger.
    var log: LogFile
    /// Notices for the user who mounts.
    var notices: [String]

    subscript<Part>(dynamicMember part: KeyPath<IdleParts, Part>) -> Part { idle[keyPath: part] }

    var tree: ItemTree { ItemTree(index: idle.index) }
    var look: ItemLook { ItemLook(index: idle.index, engine: idle.engine, container: settings.container) }
    var eviction: AskingEviction {
        AskingEviction(engine: idle.engine, index: idle.index, coordination: coordination, pool: idle.pool)
    }
}
