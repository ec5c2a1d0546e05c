internal import FoundationEssentials
internal import UbiquityCore

extension CommitRequest: MessageConvertible {
    /// Changes, packages and small chunks, with room to spare.
    static var maximumEntries: Int { 100 * Limits.maximumChangesPerCommit }

    init(message: PBCommitRequest) throws(UbiquityError) {
        guard message.changes.count <= Limits.maximumChangesPerCommit else {
            throw .malformed("a commit of more than \(Limits.maximumChangesPerCommit) changes")
        }
        var changes = [ItemChange]()
        changes.reserveCapacity(message.changes.count)
        for change in message.changes { changes.append(try ItemChange(message: change)) }
        var chunks = [Chunk]()
        chunks.reserveCapacity(message.chunks.count)
        var packages = [PackageEdit]()
        for package in message.packages.prefix(Limits.maximumPackagesPerCommit + 1) {
            packages.append(try PackageEdit(message: package))
        }
        for chunk in message.chunks {
            chunks.append(Chunk(id: try ChunkID(wire: chunk.id), bytes: Array(chunk.content)))
        }
        self.init(
            id: try RequestID(wire: message.id, "the request's id"),
            device: try DeviceID(wire: message.device, "the device's id"), deviceName: message.deviceName,
            changes: changes, chunks: chunks,
            sentAt: message.hasSentAt ? Timestamp(nanoseconds: message.sentAt) : nil,
            number: message.hasNumber ? message.number : nil, packages: packages, known: try Self.known(message))
        try check()
    }

    private static func known(_ message: PBCommitRequest) throws(UbiquityError) -> FeedPoint? {
        guard message.hasKnownIncarnation else { return nil }
        return FeedPoint(
            try Revision(wire: message.knownRevision), mark: message.knownMark, incarnation: message.knownIncarnation)
    }

    func message() throws(UbiquityError) -> PBCommitRequest {
        var result = PBCommitRequest()
        result.id = id.data
        result.device = device.data
        result.deviceName = deviceName
        result.changes = changes.map(\.message)
        result.packages = packages.map(\.message)
        if let number { result.number = number }
        if let sentAt { result.sentAt = sentAt.nanoseconds }
        if let known, let incarnation = known.incarnation {
            result.knownRevision = known.revision.number
            result.knownMark = known.mark
            result.knownIncarnation = incarnation
        }
        result.chunks = chunks.map { chunk in
            var message = PBChunk()
            message.id = chunk.id.data
            message.content = Data(chunk.bytes)
            return message
        }
        return result
    }
}

extension CommitResponse: MessageConvertible {
    init(message: PBCommitResponse) throws(UbiquityError) {
        var results = [ChangeResult]()
        results.reserveCapacity(message.results.count)
        for result in message.results { results.append(try ChangeResult(message: result)) }
        self.init(revision: try Revision(wire: message.revision), results: results)
    }

    func message() throws(UbiquityError) -> PBCommitResponse {
        var result = PBCommitResponse()
        result.revision = revision.number
        for each in results { result.results.append(try each.message()) }
        return result
    }
}

extension ChangeResult {
    init(message: PBChangeResult) throws(UbiquityError) {
        let item = message.hasItem ? try RemoteItem(message: message.item) : nil
        switch message.outcome {
        case .applied:
            guard item != nil else { throw .malformed("a result lacks its item") }
            self.init(outcome: .applied, item: item)
        case .merged:
            let target = try ItemID(wire: message.mergedInto, "the id of the item merged into")
            guard item?.id == target else { throw .malformed("a result lacks the item merged into") }
            self.init(outcome: .merged(into: target), item: item)
        case .unknownItem:
            self.init(outcome: .unknownItem, item: nil)
        case .unspecified, .UNRECOGNIZED:
            throw .malformed("a result's outcome is not known: \(message.outcome.rawValue)")
        }
    }

    func message() throws(UbiquityError) -> PBChangeResult {
        var result = PBChangeResult()
        switch outcome {
        case .applied: result.outcome = .applied
        case .merged(let target):
            result.outcome = .merged
            result.mergedInto = target.data
        case .unknownItem: result.outcome = .unknownItem
        }
        if let item { result.item = try item.message() }
        return result
    }
}
