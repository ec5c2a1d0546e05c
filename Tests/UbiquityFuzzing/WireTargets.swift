import CFuzz
import UbiquityCloudClient
import UbiquityCore
import UbiquityWire

/// A message's type, with sample values.
private struct WireKind: Sendable {
    let name: String
    let sample: @Sendable (inout FuzzRandom) -> any WireValue
    let decode: @Sendable ([UInt8], WireFormat) throws(UbiquityError) -> any WireValue

    init<Value: WireValue>(_ type: Value.Type, _ sample: @escaping @Sendable (inout FuzzRandom) -> Value) {
        name = "\(type)"
        self.sample = { random in sample(&random) }
        decode = { bytes, format throws(UbiquityError) in try WireCodec.decode(Value.self, from: bytes, as: format) }
    }

    static let all: [WireKind] = [
        WireKind(CommitRequest.self) { random in
            var request = random.commitRequest()
            request.chunks = (0..<random.below(3)).map { _ in
                Chunk(id: ChunkID(digest: [random.byte()]), bytes: random.bytes(1 + random.below(20)))
            }
            if random.oneIn(2) { request.number = Int64(random.below(100)) }
            return request
        },
        WireKind(CommitResponse.self) { random in
            CommitResponse(
                revision: random.revision(),
                results: (0..<random.below(4)).map { _ in
                    let item = random.remoteItem()
                    return random.oneIn(3)
                        ? ChangeResult(outcome: .unknownItem, item: nil)
                        : ChangeResult(
                            outcome: random.oneIn(2) ? .applied : .merged(into: item.id), item: item)
                })
        },
        WireKind(RemoteItem.self) { $0.remoteItem() },
        WireKind(ChangePage.self) { random in
            ChangePage(
                items: (0..<random.below(5)).map { _ in random.remoteItem() }, revision: random.revision(),
                hasMore: random.oneIn(2), isIncomplete: random.oneIn(4), mark: random.next())
        },
        WireKind(ItemVersions.self) { random in
            ItemVersions(
                (0..<random.below(4)).map { _ in random.remoteVersion(random.pick([.history, .conflict])) },
                isIncomplete: random.oneIn(3))
        },
        WireKind(TrashPage.self) { random in
            TrashPage(
                items: (0..<random.below(3)).map { _ in
                    TrashedItem(
                        item: random.remoteItem(), deletedAt: random.time(), device: random.deviceID(), path: "a/b")
                }, hasMore: random.oneIn(2))
        },
        WireKind(ChunkIDs.self) { random in
            ChunkIDs((0..<random.below(6)).map { _ in ChunkID(digest: [random.byte()]) })
        },
        WireKind(VersionManifest.self) { VersionManifest($0.manifest()) },
        WireKind(PackageTree.self) { $0.packageTree() },
        WireKind(CloudUsage.self) { CloudUsage(usedBytes: $0.oddNumber() & .max, quotaBytes: $0.oddNumber() & .max) },
        WireKind(News.self) { News(revision: $0.revision()) },
        WireKind(WireFailure.self) { random in
            WireFailure(
                error: UbiquityError(.missingChunks, "x", at: "y", remedy: "z"),
                missingChunks: (0..<random.below(3)).map { _ in ChunkID(digest: [random.byte()]) },
                lastCommit: random.oneIn(2) ? nil : random.oddNumber())
        },
    ]
}

extension FuzzTarget {
    private static let mutator = Mutator()
    private static let jsonMutator = Mutator(words: [
        "{", "}", "[", "]", ",", ":", "null", "true", "\"\"", "-1", "1e999", "18446744073709551615", "\\u0000",
        "\"id\":", "\"items\":[", "\"changes\":[", "\"revision\":", "\"manifest\":{\"chunks\":[", "\"unknown\":",
    ])

    static let wireTargets = [
        FuzzTarget("wire-protobuf", testExecutions: 2500) { try exerciseWire(&$0, as: .protobuf) },
        FuzzTarget("wire-json", testExecutions: 1500) { try exerciseWire(&$0, as: .json) },
        FuzzTarget("chunk-frames", testExecutions: 4000) { try exerciseFrames(&$0) },
        FuzzTarget("events", testExecutions: 4000) { try exerciseEvents(&$0) },
    ]

    /// Memory limit of a decoded message: a constant for the decoder and small messages, and four times its bytes.
    private static func memoryCeiling(_ length: Int) -> Int { (16 << 20) + (8 << 20) + 4 * length }
    /// Other threads allocate too, so a message fails only if each measurement exceeds the ceiling.
    private static let measurements = 4

    private static func exerciseWire(_ random: inout FuzzRandom, as format: WireFormat) throws {
        let kind = random.pick(WireKind.all)
        let sample = try kind.sample(&random).wire(as: format), other = try kind.sample(&random).wire(as: format)
        // Every sent message can be decoded.
        _ = try kind.decode(sample, format)
        let mutator = format == .json ? jsonMutator : mutator
        let bytes = mutator.mutate(sample, with: other, &random)
        guard let value = try decodeWithinMemory(kind, bytes, format) else { return }
        // A decoded message can be sent again, and the receiver decodes the same.
        let sent: [UInt8]
        do { sent = try value.wire(as: format) } catch {
            // Fields of a later version have no form in JSON, or are no protobuf.
            return
        }
        let again = try kind.decode(sent, format).wire(as: format)
        try require(sent == again, "\(kind.name): sent twice it is not the same")
    }

    private static func decodeWithinMemory(
        _ kind: WireKind, _ bytes: [UInt8], _ format: WireFormat
    ) throws -> (any WireValue)? {
        for attempt in 1...measurements {
            let before = CFuzz_allocatedBytes()
            let value: any WireValue
            do throws(UbiquityError) { value = try kind.decode(bytes, format) } catch {
                try require(
                    [.invalid, .tooLarge].contains(error.code), "\(kind.name): refused with \(error.code): \(error)")
                return nil
            }
            let taken = Int(CFuzz_allocatedBytes()) - Int(before)
            if taken <= memoryCeiling(bytes.count) { return value }
            try require(
                attempt < measurements, "\(kind.name): \(bytes.count) bytes take \(taken) bytes of memory")
        }
        return nil
    }

    // MARK: Streams

    /// Random pieces of a stream.
    private static func pieces(_ bytes: [UInt8], _ random: inout FuzzRandom) -> [[UInt8]] {
        var rest = bytes[...], result = [[UInt8]]()
        while !rest.isEmpty {
            let length = random.oneIn(3) ? 1 + random.below(3) : 1 + random.below(rest.count)
            result.append(Array(rest.prefix(length)))
            rest = rest.dropFirst(length)
        }
        return result
    }

    private static func exerciseFrames(_ random: inout FuzzRandom) throws {
        var sample = [UInt8]()
        for _ in 0..<random.below(4) {
            ChunkFrame.append(
                Chunk(id: ChunkID(digest: [random.byte()]), bytes: random.bytes(1 + random.below(60))), to: &sample)
        }
        if random.oneIn(3) { sample += try ChunkFrame.failure(UbiquityError(.io, "broken", at: "there")) }
        let bytes = mutator.mutate(sample, with: sample, &random)
        func read(_ pieces: [[UInt8]]) -> (chunks: [Chunk], failure: String?) {
            var decoder = ChunkFrameDecoder(), chunks = [Chunk]()
            do throws(UbiquityError) {
                for piece in pieces { chunks += try decoder.push(piece) }
                try decoder.finish()
            } catch { return (chunks, "\(error)") }
            return (chunks, nil)
        }
        let whole = read([bytes]), parts = read(pieces(bytes, &random))
        try requireEqual(whole.failure, parts.failure, "the pieces decide about the failure")
        if whole.failure == nil { try require(whole.chunks == parts.chunks, "the pieces decide about the chunks") }
        guard whole.failure == nil else { return }
        try require(whole.chunks.flatMap(ChunkFrame.encode) == bytes, "the chunks are not the bytes")
    }

    private static let eventMutator = Mutator(words: [
        "event: revision\n", "data: {\"revision\":", "}\n\n", "digest: ", ":\n", "\r\n", "id: 1\n", "retry: 1\n",
        "data: ", "9223372036854775808", "-0", "+7", "{\"revision\":}",
    ])

    private static func exerciseEvents(_ random: inout FuzzRandom) throws {
        var text = ""
        for _ in 0..<random.below(4) {
            let data = "{\"revision\":\(random.pick([0, 1, 77, Int64.max]))}"
            let name = random.pick(["revision", "keyvalues"])
            text += random.oneIn(4) ? ": comment\n\n" : "event: \(name)\ndata: \(data)\n"
            if random.oneIn(2) { text += "digest: \(MessageDigest.ofEvent(data))\n" }
            text += "\n"
        }
        let bytes = eventMutator.mutate(Array(text.utf8), with: Array(text.utf8), &random)
        let requiresDigest = random.oneIn(3)
        func read(_ pieces: [[UInt8]]) -> (events: [EventParser.Event], failure: String?) {
            var parser = EventParser(requiresDigest: requiresDigest), events = [EventParser.Event]()
            var failure: String?
            for piece in pieces where failure == nil {
                piece.withUnsafeBytes { raw in
                    do throws(UbiquityError) { events += try parser.push(raw) } catch { failure = "\(error)" }
                }
            }
            return (events, failure)
        }
        let whole = read([bytes]), parts = read(pieces(bytes, &random))
        try requireEqual(whole.failure, parts.failure, "the pieces decide about the failure")
        if whole.failure == nil { try requireEqual(whole.events, parts.events, "the pieces decide") }
        try require(
            whole.events.allSatisfy { event in
                switch event {
                case .revision(let revision), .keyValues(let revision): revision >= .zero
                }
            }, "a revision is negative")
    }
}
