import Logging
import UbiquityContent
import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// Gives the file system the transfers of the sync engine.
struct EngineTransfers: TransferStatus {
    let engine: SyncEngine
    let index: ItemIndex
    let deviceFolder: String
    let container: ContainerID

    /// The token for a program without an identifier.
    var identityToken: String? {
        guard engine.connection.status.phase != .signedOut else { return nil }
        // A file that cannot be read is reported by the commands that need it.
        return (try? DeviceFiles.read(deviceFolder))?.token(application: "", container: container.name)
    }

    /// The last known values (see `Housekeeping`).
    var space: AccountSpace? {
        let status = engine.connection.status
        guard let used = status.usedBytes, let quota = status.quotaBytes else { return nil }
        return AccountSpace(usedBytes: used, quotaBytes: quota)
    }

    func transfer(of key: ItemKey) -> ItemTransfer? {
        // An unreadable index shows everywhere else; an attribute need not report it.
        guard let row = try? index.row(key: key) else { return nil }
        // Nil for an item that the cloud does not have yet, which has an upload to report.
        let remote: RemoteItem?
        do { remote = try index.peek { try $0.remote(id: row.id) } } catch { return nil }
        // The transfer does not need conflicts, and counting them in a folder takes a while.
        var transfer = Self.transfer(engine.status.status(of: row, remote, conflicts: 0))
        transfer.isPaused = engine.control.isPaused(key)
        return transfer
    }

    func transfer(below folder: ItemKey) -> ItemTransfer? {
        engine.downloader.finishDownloads()
        return try? index.read { reader in
            Self.transfer(try FolderActivity(below: folder, reader.sums(below: folder), engine.status, reader))
        }
    }

    static func transfer(_ activity: FolderActivity) -> ItemTransfer {
        var transfer = ItemTransfer()
        transfer.isDownloading = activity.isDownloading
        transfer.downloadedBytes = activity.downloadedBytes
        transfer.downloadingError = activity.downloadingError
        transfer.isUploading = activity.isUploading
        transfer.uploadedBytes = activity.uploadedBytes
        transfer.uploadingError = activity.uploadingError
        return transfer
    }

    static func transfer(_ status: ItemSyncStatus) -> ItemTransfer {
        var transfer = ItemTransfer()
        transfer.isDownloading = status.isDownloading
        transfer.percentDownloaded = Int(status.percentDownloaded)
        transfer.downloadingError = status.downloadingError
        transfer.isUploading = status.isUploading
        transfer.percentUploaded = Int(status.percentUploaded)
        transfer.uploadingError = status.uploadingError
        return transfer
    }
}

extension TransferWait {
    init(_ wait: ItemWait) {
        self.init(reason: wait.code, text: wait.sentence, until: wait.until?.seconds)
    }
}

/// Gives the file system the versions that the sync engine knows.
struct EngineVersions: VersionSource {
    let engine: SyncEngine

    func otherVersions(of item: ItemID) async throws -> [RemoteVersion] {
        try await engine.versions.otherVersions(of: item)
    }
    func begin(_ version: RemoteVersion) async throws -> PartialContent { try await engine.begin(version) }
    func copy(_ version: RemoteVersion) async throws -> ContentID { try await engine.versionDownloads.copy(version) }
    func tree(of version: RemoteVersion) async throws -> PackageTree {
        try await engine.versionDownloads.tree(of: version)
    }
    func hasAppVersions(_ key: ItemKey) -> Bool { engine.appVersions.hasVersions(key) }
    var itemsWithAppVersions: [ItemKey] { engine.appVersions.items }
    func removeAppVersion(_ version: VersionID) -> Bool { engine.appVersions.remove(version) }
}

/// Carries out the control attributes. On a folder they apply to all its contents.
struct EngineControl: ItemControl {
    let engine: SyncEngine
    let eviction: AskingEviction
    let tree: ItemTree
    let pool: BlockingPool

    func requestDownload(_ key: ItemKey) async throws {
        try await engine.downloader.requestPersistently(try await places(key).filter { $0.kind == .file }.map(\.key))
    }

    /// Evicts every item that can be evicted, then throws the first refusal.
    func evict(_ key: ItemKey) async throws {
        var refusal: (any Error)?
        let places = try await places(key)
        if places.count == 1, let only = places.first, only.kind != .file, only.kind != .directory {
            throw UbiquityError(.invalid, "only files have content to evict")
        }
        for place in places where place.kind == .file {
            do { try await eviction.evict(place.key) } catch { refusal = refusal ?? error }
        }
        try await pool.run { try engine.removeRetired() }
        if let refusal { throw refusal }
    }

    func setPinned(_ key: ItemKey, _ isPinned: Bool) async throws {
        let keys = try await places(key).map(\.key)
        // An item deleted meanwhile need not be pinned; for the item named itself, the error is thrown.
        guard keys.count > 1 else { return try await pool.run { try engine.downloader.setPinned(key, isPinned) } }
        try await pool.run { try engine.downloader.setPinned(keys, isPinned) }
    }

    private func places(_ key: ItemKey) async throws -> [ItemTree.Place] {
        try await pool.run {
            guard let path = try tree.path(of: key) else { throw UbiquityError(.notFound, "the item is gone") }
            return try tree.subtree(at: path)
        }
    }
}
