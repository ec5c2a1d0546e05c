package import UbiquityCore
internal import UbiquityContent
internal import UbiquityIndex
internal import UbiquitySystem

// What a monitor shows.
extension SyncEngine {
    /// Waits until this device has been told once of all that the container has, or hears that the cloud is out of
    /// reach; at most that long.
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
