internal import FoundationEssentials
internal import UbiquityCore

extension CommitRequest: MessageConvertible {
    static var shape: MessageShape { .commit }

    init(message: PBCommitRequest) throws(UbiquityError) {
        var parts = CommitParts()
        for change in message.changes { try parts.add(try ItemChange(message: change)) }
        for package in message.packages { try parts.add(try PackageEdit(message: package)) }
        for chunk in message.chunks { try parts.add(chunk) }
        try self.init(message, parts)
    }

    init(protobuf bytes: [UInt8]) throws(UbiquityError) {
        var parts = CommitParts()
        let message = try WireCodec.remaining(PBCommitRequest.self, of: bytes) {
            field, raw, range throws(UbiquityError) in
            switch field {
            case 4: try parts.add(try ItemChange(raw, range))
            case 5: try parts.addChunk(raw, range)
            case 8: try parts.add(try PackageEdit(raw, range))
            default: return false
            }
            return true
        }
        try self.init(message, parts)
    }

    private init(_ message: PBCommitRequest, _ parts: CommitParts) throws(UbiquityError) {
        self.init(
            id: try RequestID(wire: message.id, "the request's id"),
            device: try DeviceID(wire: message.device, "the device's id"), deviceName: message.deviceName,
            changes: parts.changes, chunks: parts.chunks,
            sentAt: message.hasSentAt ? Timestamp(nanoseconds: message.sentAt) : nil,
            number: message.hasNumber ? message.number : nil, packages: parts.packages,
            known: try Self.known(message))
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

/// The entries of a commit, each counted before the next is decoded.
private struct CommitParts {
    private(set) var changes = [ItemChange]()
    private(set) var chunks = [Chunk]()
    private(set) var packages = [PackageEdit]()
    private var chunkBytes = 0

    mutating func add(_ change: ItemChange) throws(UbiquityError) {
        guard changes.count < Limits.maximumChangesPerCommit else {
            throw .malformed("a commit of more than \(Limits.maximumChangesPerCommit) changes")
        }
        changes.append(change)
    }

    mutating func add(_ package: PackageEdit) throws(UbiquityError) {
        guard packages.count < Limits.maximumPackagesPerCommit else {
            throw .malformed("a commit about more than \(Limits.maximumPackagesPerCommit) packages")
        }
        packages.append(package)
    }

    mutating func addChunk(_ raw: UnsafeRawBufferPointer, _ range: Range<Int>) throws(UbiquityError) {
        try checkChunks(range.count)
        try add(try WireCodec.message(PBChunk.self, WireCodec.bytes(raw, range)))
    }

    mutating func add(_ chunk: PBChunk) throws(UbiquityError) {
        try checkChunks(chunk.content.count)
        chunkBytes += chunk.content.count
        chunks.append(Chunk(id: try ChunkID(wire: chunk.id), bytes: Array(chunk.content)))
    }

    private func checkChunks(_ next: Int) throws(UbiquityError) {
        // A frame of the wire is a little longer than its content.
        guard chunkBytes + next <= Limits.maximumInlineChunkBytes + 1024 else {
            throw .malformed("a commit with more than \(Limits.maximumInlineChunkBytes) bytes of chunks")
        }
    }
}

extension CommitResponse: MessageConvertible {
    static var shape: MessageShape { .response }

    init(protobuf bytes: [UInt8]) throws(UbiquityError) {
        var results = [ChangeResult]()
        let message = try WireCodec.remaining(PBCommitResponse.self, of: bytes) {
            field, raw, range throws(UbiquityError) in
            guard field == 2 else { return false }
            results.append(
                try ChangeResult(message: WireCodec.message(PBChangeResult.self, WireCodec.bytes(raw, range))))
            return true
        }
        self.init(revision: try Revision(wire: message.revision), results: results)
    }

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
