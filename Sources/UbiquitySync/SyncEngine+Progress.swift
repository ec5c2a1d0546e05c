package import UbiquityCore
internal import UbiquityContent
internal import UbiquityIndex
internal import UbiquitySystem

// What a monitor shows.
extension SyncEngine {
    /// The contents on their way up at this moment.
    package var runningUploads: [ItemKey: TransferProgress] { transfers.uploading }

    /// The contents on their way down at this moment.
    package var runningDownloads: [ItemKey: TransferProgress] {
        var result = [ItemKey: TransferProgress]()
        for download in downloads.all where download.hasLanes {
            result[download.key] = TransferProgress(
                doneBytes: download.content.presentBytes, totalBytes: download.content.size)
        }
        return result
    }

    /// What the item's last download failed on, if nothing has come of it since.
    package func downloadProblem(of item: ItemKey) -> TransferProblem? { problems.problem(.download, of: item) }

    /// The transfers that failed and wait for their next attempt.
    package var failedTransfers: [(item: ItemKey, direction: TransferDirection, problem: TransferProblem)] {
        problems.all
    }
}
