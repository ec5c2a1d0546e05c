internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Contents that this device announced and lost with the power before their upload. It holds nothing: the state is in
/// the index and in `FeedStatus`. The feed's reader calls it.
struct LostContents: SyncRoom {
    let context: SyncContext

    /// Deletes items that this device announced and whose content is lost: no other device ever had it. Call it after
    /// the feed was read to its end, when the index has everything announced, and again while some of these items wait
    /// for a place.
    func giveUp() throws {
        let waits = try index.write(.remote) { transaction in
            var waits = false
            for id in try transaction.announced(by: configuration.device) {
                guard let row = try transaction.row(id: id), row.isDeleted || row.entry != nil else {
                    waits = true
                    continue
                }
                guard row.dirty.isEmpty, row.contentState != .complete else { continue }
                logger.warning("a new file's content was lost with the power: deleting it", metadata: ["item": "\(id)"])
                try transaction.giveUp(row)
            }
            try transaction.noteLostContents(wait: waits)
            return waits
        }
        feed.update { feed in
            feed.mayHaveLost = false
            feed.knowsWhatWasSent = true
            feed.looksForLost = waits
        }
        agenda.happened(.changesWereMade)
    }
}
