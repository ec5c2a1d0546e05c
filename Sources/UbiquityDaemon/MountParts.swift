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
    var embeddedCloud: EmbeddedCloud?
    var engine: SyncEngine
    var pool: BlockingPool
}

/// What a running mount is made of.
struct MountParts: Sendable {
    var settings: MountSettings
    var account: String
    var identity: DeviceIdentity
    var folder: ContainerFolder
    var index: ItemIndex
    var contents: ContentStore
    var client: CloudClient
    var service: any CloudService
    /// The cloud of this machine, if it is the one in use.
    var embeddedCloud: EmbeddedCloud?
    var engine: SyncEngine
    var fileSystem: ContainerFileSystem
    var passthrough: KernelPassthrough
    var coordination: Coordination
    var pool: BlockingPool
    var timekeeper: any Timekeeper
    var startedAt: Timestamp
    var logger: Logger

    var tree: ItemTree { ItemTree(index: index) }
    var eviction: AskingEviction {
        AskingEviction(engine: engine, index: index, coordination: coordination, pool: pool)
    }
}
