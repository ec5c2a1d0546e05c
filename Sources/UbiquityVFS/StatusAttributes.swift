package import UbiquityCore
package import UbiquityIndex

/// The facts from which an item's status attributes are computed.
package struct ItemFacts: Sendable {
    package var row: ItemRow
    /// The item's state in the cloud, as last received.
    package var remote: RemoteItem?
    /// Unresolved conflicts of the item, or of a folder's contents.
    package var conflicts: Int
    package var transfer: ItemTransfer?
    package var container: ContainerID
    /// The totals of everything below a folder; nil for other items. A folder's state is the state of its whole tree.
    package var sums: FolderSums?
    package var isPackage: Bool

    /// - Parameter transfer: the item's transfer; for a folder, the transfers of all items below it.
    package init(
        row: ItemRow, remote: RemoteItem?, conflicts: Int, transfer: ItemTransfer?, container: ContainerID,
        sums: FolderSums? = nil, isPackage: Bool = false
    ) {
        self.row = row
        self.remote = remote
        self.conflicts = conflicts
        self.transfer = transfer
        self.container = container
        self.sums = sums
        self.isPackage = isPackage
    }

    func value(of attribute: StatusAttribute) -> [UInt8] { Array(text(of: attribute).utf8) }

    package func text(of attribute: StatusAttribute) -> String {
        switch attribute {
        case .isUbiquitous: flag(!row.staysHere)
        case .isExcludedFromSync: flag(row.staysHere)
        case .isPackage: flag(isPackage)
        case .isPinned: flag(row.isPinned)
        case .itemID: row.id.description
        case .versionID: row.version?.description ?? ""
        case .container: container.name
        case .hasUnresolvedConflicts: flag(conflicts > 0)
        case .conflictCount: String(conflicts)
        default: transferText(of: attribute)
        }
    }

    private func transferText(of attribute: StatusAttribute) -> String {
        switch attribute {
        case .downloadingStatus: downloadingStatus
        case .isDownloading: flag(transfer?.isDownloading ?? false)
        case .percentDownloaded: isHere ? "100" : String(percentDownloaded)
        case .downloadingError: isHere ? "" : transfer?.downloadingError?.description ?? ""
        case .downloadRequested: flag(isDownloadRequested || transfer?.isDownloading ?? false)
        case .downloadingErrorCode: isHere ? "" : transfer?.downloadingError?.code.rawValue ?? ""
        case .uploadingErrorCode: isUploaded ? "" : transfer?.uploadingError?.code.rawValue ?? ""
        case .isUploaded: flag(isUploaded)
        case .isUploading: flag(transfer?.isUploading ?? false)
        case .isSyncPaused: flag(transfer?.isPaused ?? false)
        case .percentUploaded: isUploaded ? "100" : String(percentUploaded)
        case .uploadingError: isUploaded ? "" : transfer?.uploadingError?.description ?? ""
        default: ""
        }
    }

    private var isHere: Bool {
        if let sums { return sums.absent == 0 }
        return row.kind != .file || row.contentState == .complete
    }

    private var isUploaded: Bool { row.isUploaded(remote) && (sums?.pending ?? 0) == 0 }

    private var isDownloadRequested: Bool { row.flags.contains(.downloadRequested) || (sums?.requested ?? 0) > 0 }

    private var downloadingStatus: String {
        guard isHere else { return "not-downloaded" }
        return sums.map { $0.outdated > 0 } ?? row.isOutdated(remote) ? "downloaded" : "current"
    }

    private var percentDownloaded: Int {
        guard let sums else { return transfer?.percentDownloaded ?? 0 }
        return Self.percent(sums.bytes &- sums.absentBytes &+ (transfer?.downloadedBytes ?? 0), of: sums.bytes)
    }

    private var percentUploaded: Int {
        guard let sums else { return transfer?.percentUploaded ?? 0 }
        return Self.percent(sums.bytes &- sums.pendingBytes &+ (transfer?.uploadedBytes ?? 0), of: sums.bytes)
    }

    /// The percentage of an incomplete transfer: 0 … 99.
    private static func percent(_ done: Int64, of whole: Int64) -> Int {
        guard whole > 0, done > 0 else { return 0 }
        return Int(min(99, Double(done) / Double(whole) * 100))
    }

    private func flag(_ value: Bool) -> String { value ? "1" : "0" }
}
