package import UbiquityCore
internal import UbiquityContent
internal import UbiquityIndex
internal import UbiquitySystem

// Progress for a monitor.
extension SyncEngine {
    /// Waits until this device has read the whole container once, or the cloud proves unreachable, at most `limit`.
    package func awaitFirstListing(atMost limit: Duration) async {
        let end = timekeeper.uptime() + limit
        while !Task.isCancelled {
            let generation = progress.generation, left = end - timekeeper.uptime()
            guard left > .zero, connection.status.phase == .connecting || connection.isOnline else { return }
            guard await (try? pool.run({ [index] in try index.read { try $0.hasBeenCaughtUp() } })) == false else {
                return
            }
            await progress.wait(since: generation, atMost: left, timekeeper)
        }
    }

    /// The uploads in progress.
    package var runningUploads: [ItemKey: TransferProgress] { transfers.uploading }

    /// The downloads in progress.
    package var runningDownloads: [ItemKey: TransferProgress] {
        var result = [ItemKey: TransferProgress]()
        for download in downloads.all where download.hasLanes {
            result[download.key] = TransferProgress(
                doneBytes: download.content.presentBytes, totalBytes: download.content.size)
        }
        return result
    }

    /// The error of the item's last download, unless a later one succeeded.
    package func downloadProblem(of item: ItemKey) -> TransferProblem? { problems.problem(.download, of: item) }

    /// The failed transfers that wait for their next attempt.
    package var failedTransfers: [(item: ItemKey, direction: TransferDirection, problem: TransferProblem)] {
        problems.all
    }
}
