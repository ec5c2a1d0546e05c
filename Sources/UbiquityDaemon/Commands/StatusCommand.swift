import UbiquityCloudClient
import UbiquityControl
import UbiquityCore
import UbiquityFUSE
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// `status`: the state of the mount.
struct StatusCommand: MountCommand {
    let parts: MountParts

    func report() async throws -> MountStatus { try await pool.run { [self] in try readStatus() } }

    private func readStatus() throws -> MountStatus {
        let summary = try engine.summary()
        let pendingItems = PendingItems(parts: parts)
        let pending = try pendingItems.uploads() + (try pendingItems.downloads())
        let shown = Array(pending.prefix(MountStatus.maximumPendingItems))
        let waiting = try engine.status.waitingDownloads()
        let downloads = max(summary.activeDownloads, waiting.items, pending.count { $0.direction == .download })
        let total = summary.pendingUploads + downloads
        let settings = parts.settings
        var status = MountStatus(
            mountPoint: settings.mountPoint, container: settings.container.name, account: parts.account,
            device: DeviceDescription(id: parts.identity.id.description, name: parts.identity.name),
            cloud: contact(summary.connection), revision: summary.revision.number, policy: settings.policy.rawValue,
            cacheLimit: settings.cacheLimit, diskFloor: engine.space.floor.configured,
            cachedBytes: try parts.engine.space.cachedBytes(),
            uploads: TransferTotal(items: summary.pendingUploads, bytes: summary.pendingUploadBytes),
            downloads: TransferTotal(items: downloads, bytes: max(waiting.bytes, summary.pendingDownloadBytes)),
            pending: shown,
            pendingOmitted: max(0, total - shown.count), passthrough: feature(parts.kernel.passthrough.refusal),
            rings: feature(parts.kernel.rings.refusal),
            bytesSent: parts.client.sentBytes, bytesReceived: parts.client.receivedBytes,
            processID: ProcessHost.id, startedAt: parts.startedAt.seconds, version: ProgramVersion.text,
            heldDeletions: engine.heldDeletions, conflicts: try conflicts(),
            coordination: try CoordinationReport(parts: parts).status())
        status.usedBytes = engine.connection.status.usedBytes
        status.quotaBytes = engine.connection.status.quotaBytes
        status.socket = parts.home.controlSocket
        return status
    }

    private func conflicts() throws -> ConflictTotal? {
        let (total, items) = try parts.index.read { reader in
            let total = try reader.conflictTotal()
            let limit = MountStatus.maximumPendingItems
            return (total, total.items > 0 ? try reader.itemsInConflict(withPackages: true, limit: limit) : [])
        }
        guard total.items > 0 else { return nil }
        return ConflictTotal(
            items: total.items, versions: total.versions, bytes: total.bytes,
            paths: try items.compactMap { try parts.tree.path(of: $0.key) })
    }

    private func feature(_ refusal: String?) -> KernelFeatureStatus {
        KernelFeatureStatus(isActive: refusal == nil, reason: refusal)
    }

    func contact(_ connection: ConnectionStatus) -> CloudContact {
        let state: CloudContact.State =
            switch connection.phase {
            case .connecting: .connecting
            case .online: .online
            case .offline, .paused: .offline
            case .signedOut: .signedOut
            }
        return CloudContact(
            address: parts.fileSystem.isVacant ? "none" : parts.client.address.description, state: state,
            reason: state == .online || connection.reason.isEmpty ? nil : connection.reason,
            lastContact: connection.lastContact?.seconds)
    }
}
