package import Logging
package import UbiquityContent
package import UbiquityCore
package import UbiquityIndex
package import UbiquitySystem
package import UbiquityWire

/// The parts of an engine that an examination uses (`UbiquityDoctor`).
///
/// The examiner reads index, contents and cloud itself. It calls the engine where a running transfer, the feed or a
/// recovery after a power loss must take part in a repair.
package struct DoctorAccess: Sendable {
    private let engine: SyncEngine

    package init(_ engine: SyncEngine) { self.engine = engine }

    package var index: ItemIndex { engine.index }
    package var store: ContentStore { engine.store }
    package var service: any CloudService { engine.service }
    package var configuration: SyncConfiguration { engine.configuration }
    package var timekeeper: any Timekeeper { engine.timekeeper }
    package var pool: BlockingPool { engine.pool }
    package var logger: Logger { engine.logger }

    // MARK: Use

    /// Runs `body` while the item is closed. Nil if a program has the item open.
    package func whileClosed<R>(_ key: ItemKey, _ body: () throws -> R) throws -> R? {
        guard let openItems = engine.openItems else { return try body() }
        return try openItems.whileClosed(key, body)
    }

    package func isDownloading(_ key: ItemKey) -> Bool { engine.fetch.downloads.download(of: key) != nil }

    /// Whether a running operation uses the content, although no item references it yet or any more.
    package func isInUse(_ content: ContentID) -> Bool { engine.fetch.inUse.contains(content) }

    // MARK: The cloud

    /// Reads the feed to its end, for an engine that does not `run`. A cloud with another identity becomes the known
    /// one.
    package func readFeed(of description: ContainerDescription) async throws {
        try await engine.feedReader.meet(description)
        try await engine.feedReader.readFeed()
        engine.feed.update { $0.isCaughtUp = true }
    }

    /// The chunks of a version, requested from the cloud if the record lacks them.
    package func manifest(of content: RemoteContent) async throws -> Manifest {
        try await engine.manifest(of: content)
    }

    // MARK: Repairs

    /// Wakes the loops, which then send and fetch what the repairs changed.
    package func resumeTransfers() {
        engine.agenda.happened(.indexWasRepaired)
    }

    /// Drops the backoff of the item's download.
    package func retryDownload(of key: ItemKey) { engine.problems.clear(.download, of: key) }

    /// Replaces the index's record of an item by the given one, and places it.
    package func replaceRecord(with item: RemoteItem) throws {
        try place { transaction, settler in
            try transaction.forgetRemote(item.id)
            try settler.receive(item)
        }
    }

    /// Applies the index's record of an item to the tree once more.
    package func placeAgain(_ id: ItemID) throws {
        try place { transaction, settler in
            try transaction.setState(id, .waiting)
            try settler.review(id)
        }
    }

    private func place(_ change: (IndexTransaction, inout Settler) throws -> Void) throws {
        let dropped = try engine.index.write(.remote) { transaction in
            var settler = engine.settler(transaction)
            try change(transaction, &settler)
            try settler.settleAll(limit: SyncLimits.settleBatch)
            return settler.dropped
        }
        engine.discard(dropped)
    }

    /// Turns an item with a partial content into a placeholder again.
    /// - Returns: false if the content remains, because it is complete by now.
    package func dropPartial(_ row: ItemRow, _ content: ContentID) throws -> Bool {
        try ContentPlacement(context: engine.context).dropPartial(row, content)
    }

    // MARK: After a power loss

    /// Restores replaced contents whose replacement is not complete on the disk.
    package func restoreReplaced() throws { try engine.powerLoss.restoreReplaced() }

    /// Uses the cloud's version for a changed content that is lost, and otherwise the backing file as it is.
    package func reviewChangedContent(_ row: ItemRow) throws { try engine.powerLoss.reviewChangedContent(row) }

    /// Whether the cloud has the content of the item's last known version.
    package func hasVersionAtCloud(_ row: ItemRow) throws -> Bool { try engine.powerLoss.hasVersionThere(row) }
}
