internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem
internal import UbiquityWire

/// Compares the cloud's identity with the one that the index knows.
struct CloudIdentityCheck: Check {
    let context: CheckContext

    /// No cloud makes this many revisions, whatever older backup was restored.
    private static let impossibleLead: Int64 = 1 << 40

    /// Whether the feed can reach as far as the index says. If not, a repair makes the next read start from the
    /// beginning.
    /// - Returns: false if it cannot and nothing is to be repaired. Then no further comparison is possible.
    func hasPossiblePlace(
        _ position: FeedPosition, _ description: ContainerDescription, _ diagnosis: inout Diagnosis
    ) async throws -> Bool {
        guard position.revision.number - description.revision.number > Self.impossibleLead else { return true }
        if options.repairs {
            var next = position
            next.revision = .zero
            try await pool.run { [index, next] in try index.write(.startup) { try $0.setFeedPosition(next) } }
        }
        diagnosis.isOfAnotherCloud = !options.repairs
        diagnosis.add([
            Finding(
                .indexInconsistent, "index.db", "its position is beyond the end of the cloud's feed",
                options.repairs ? .repaired("the feed is read from the beginning") : .found)
        ])
        return options.repairs
    }

    /// - Returns: false if it is another cloud and nothing is to be repaired.
    func isKnown(_ description: ContainerDescription, _ diagnosis: inout Diagnosis) async throws -> Bool {
        let position = try await pool.run { [index] in try index.read { try $0.feedPosition() } }
        guard let known = position.incarnation, known != description.incarnation else { return true }
        try await examineAnotherCloud(description, position, &diagnosis)
        return options.repairs
    }

    /// Handles a cloud that has lost its data, a different cloud, or an index that has lost the cloud's identity. It
    /// changes nothing else here.
    private func examineAnotherCloud(
        _ description: ContainerDescription, _ position: FeedPosition,
        _ diagnosis: inout Diagnosis
    ) async throws {
        var revision = Revision.zero, hasMore = true, seen = Set<ItemID>(), same = Set<ItemID>()
        while hasMore {
            let page = try await service.snapshot(after: revision, limit: SyncLimits.listingPage)
            let items = page.items.filter { !$0.isDeleted }
            seen.formUnion(items.map(\.id))
            same.formUnion(
                try await pool.run { [index] in
                    try items.filter { item in
                        try index.read { try $0.remote(id: item.id) }?.isSame(as: item) ?? false
                    }
                }.map(\.id))
            revision = page.revision
            hasMore = page.hasMore
        }
        diagnosis.records = seen.count
        let there = seen, known = try await pool.run { [index] in try index.read { try $0.liveRecords() } }
        // A cloud restored from a backup lacks later changes, and begins anew.
        if !known.isEmpty, position.revision <= description.revision, known.keys.allSatisfy(same.contains) {
            return diagnosis.add([try await rename(description, position)])
        }
        diagnosis.isOfAnotherCloud = true
        diagnosis.add(
            try await pool.run { [index] in
                let lost = known.keys.filter { !there.contains($0) }.sorted()
                return try lost.prefix(Diagnosis.maximumFindings).compactMap { id in
                    let (known, row) = try index.read { (try $0.remote(id: id), try $0.row(id: id)) }
                    return known.map { self.lost($0, row) }
                }
            })
    }

    private func rename(
        _ description: ContainerDescription, _ position: FeedPosition
    ) async throws -> Finding {
        if options.repairs {
            var next = position
            next.incarnation = description.incarnation
            try await pool.run { [index, next] in try index.write(.startup) { try $0.setFeedPosition(next) } }
        }
        return Finding(
            .indexInconsistent, "index.db", "it names another cloud, but has all items of this one",
            options.repairs ? .repaired("it names this cloud") : .found)
    }

    private func lost(_ item: RemoteItem, _ row: ItemRow?) -> Finding {
        let isHere = row.map { $0.kind != .file || $0.contentState == .complete } ?? false
        let outcome: Finding.Outcome = isHere
            ? .repaired("uploaded again by the next mount")
            : .unrepaired("its content is not here; mount on a device that has it, or restore the cloud's old data")
        return Finding(
            .recordUnknown, "\(item.name)", "the cloud is a different one and does not have item \(item.id)",
            options.repairs ? outcome : .found)
    }
}
