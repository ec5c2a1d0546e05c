package import UbiquityCore
package import UbiquityIndex
internal import UbiquityContent
internal import UbiquitySystem

/// The transfers of the items below a folder: those in progress, and failed ones.
///
/// The engine keeps transfers in memory, by item. Each one's ancestors are followed, which is cheap: transfers are few
/// compared with items, and most lie in the same folders.
package struct FolderActivity: Sendable, Hashable {
    package private(set) var isDownloading = false
    /// Local bytes of files that are not complete here.
    package private(set) var downloadedBytes: Int64 = 0
    package private(set) var downloadingError: UbiquityError?
    package private(set) var isUploading = false
    /// Uploaded bytes of files that are not complete at the cloud.
    package private(set) var uploadedBytes: Int64 = 0
    package private(set) var uploadingError: UbiquityError?

    /// The largest number of files to examine whose content another device has yet to upload.
    private static let maximumAwaited = 1000

    /// - Parameter sums: the totals of the folder. If nothing is pending or absent, no item is examined.
    package init(below folder: ItemKey, _ sums: FolderSums, _ status: StatusReader, _ reader: IndexReader) throws {
        var ancestry = Ancestry(folder, reader)
        for (key, progress) in status.transfers.uploading {
            guard let row = try ancestry.row(key) else { continue }
            isUploading = true
            uploadedBytes &+= Int64(min(Double(row.size), Double(Limits.maximumFileSize)) * progress.percent / 100)
        }
        for download in status.fetch.downloads.all {
            guard let row = try ancestry.row(download.key) else { continue }
            if download.hasLanes { isDownloading = true }
            if row.isPlaceholder { downloadedBytes &+= download.content.presentBytes }
        }
        guard sums.pending > 0 || sums.absent > 0 else { return }
        // In a fixed order, so that the same error is shown as long as it lasts.
        for (key, direction, problem) in status.problems.all.sorted(by: { $0.item < $1.item }) {
            if direction == .upload ? uploadingError != nil || sums.pending == 0 : downloadingError != nil { continue }
            guard let row = try ancestry.row(key) else { continue }
            let remote = try reader.remote(id: row.id)
            if direction == .upload {
                if !row.isUploaded(remote) { uploadingError = problem.error }
            } else if row.isPlaceholder {
                downloadingError = status.downloadingError(row, remote)
            }
        }
        guard downloadingError == nil, sums.absent > 0, sums.pending > 0 else { return }
        let eager = status.configuration.policy == .eager ? Int64.max : 0
        for key in try reader.awaited(eager: eager, limit: Self.maximumAwaited) {
            guard let row = try ancestry.row(key) else { continue }
            downloadingError = status.downloadingError(row, try reader.remote(id: row.id))
            if downloadingError != nil { return }
        }
    }
}

/// Decides whether an item is below a folder.
private struct Ancestry {
    private let folder: ItemKey
    private let reader: IndexReader
    private var known: [ItemKey: Bool] = [:]

    init(_ folder: ItemKey, _ reader: IndexReader) {
        self.folder = folder
        self.reader = reader
    }

    /// The item's row, or nil if it has no name below the folder.
    mutating func row(_ key: ItemKey) throws -> ItemRow? {
        guard let row = try reader.row(key: key), !row.isDeleted, !row.staysHere else { return nil }
        if try isBelow(row) { return row }
        guard row.isLinked else { return nil }
        for link in try reader.links(to: row.id) { if try isBelow(link) { return row } }
        return nil
    }

    private mutating func isBelow(_ row: ItemRow) throws -> Bool {
        guard let parent = row.entry?.parent else { return false }
        if let known = known[parent] { return known }
        let isBelow = try reader.isWithin(parent, folder)
        known[parent] = isBelow
        return isBelow
    }
}
