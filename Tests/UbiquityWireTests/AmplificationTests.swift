import Testing
import UbiquityCore
import UbiquityWire

/// Messages of many tiny entries are refused before they are decoded: each entry would take many times its bytes in
/// memory.
@Suite struct AmplificationTests {
    /// A field of bytes or a message.
    private static func field(_ number: Int, _ bytes: [UInt8]) -> [UInt8] {
        func variable(_ value: Int) -> [UInt8] {
            value < 128 ? [UInt8(value)] : [UInt8(value & 127) | 128] + variable(value >> 7)
        }
        return variable(number << 3 | 2) + variable(bytes.count) + bytes
    }

    private static func many(_ number: Int, _ bytes: [UInt8] = []) -> [UInt8] {
        var result = field(number, bytes)
        while result.count < 1_000_000 { result += result }
        return result
    }

    private static let id = [UInt8](repeating: 1, count: 16)
    private static let head = field(1, id) + field(2, id)

    private static func change(_ action: Int, _ fields: [UInt8]) -> [UInt8] {
        head + field(4, field(1, id) + [0x10, 1] + field(action, fields))
    }

    /// Messages of a hostile device, by the kind of entry that exceeds the limit.
    static let commits: [(name: String, bytes: [UInt8])] = [
        ("attributes", change(5, many(5))), ("removed attributes", change(5, many(6))),
        ("attributes of one byte", change(5, many(5, [0x0A, 1, 65]))),
        ("times", change(5, many(9))), ("chunks of a content", change(5, field(8, field(4, many(1))))),
        ("contents", change(5, many(8))), ("manifests", change(5, field(8, many(4)))),
        ("decisions", change(7, many(1))), ("packages", head + many(8)),
        ("chunks of a package", head + field(8, field(4, field(3, many(1))))),
        ("chunks", head + many(5)), ("changes", head + many(4)),
        ("unknown fields", head + field(4, many(500))), ("unknown fields at the top", head + many(500)),
    ]

    @Test(arguments: commits.indices) func commitOfTinyEntriesIsRefused(_ index: Int) {
        let (name, bytes) = Self.commits[index]
        let error = #expect(throws: UbiquityError.self) {
            try WireCodec.decode(CommitRequest.self, from: bytes, as: .protobuf)
        }
        #expect(error.map { $0.code == .invalid && $0.message.contains("entries") } == true, "\(name): \(error as Any)")
    }

    @Test func chunkLongerThanACommitMayCarryIsRefused() {
        let content = [UInt8](repeating: 0, count: Limits.maximumInlineChunkBytes + 4096)
        let bytes = Self.head + Self.field(5, Self.field(1, Self.id + Self.id) + Self.field(2, content))
        let error = #expect(throws: UbiquityError.self) {
            try WireCodec.decode(CommitRequest.self, from: bytes, as: .protobuf)
        }
        #expect(error?.message.contains("bytes of chunks") == true)
    }

    @Test func jsonOfManyElementsIsRefused() {
        for element in ["{}", "\"\"", "[]"] {
            let text = #"{"changes":[{"item":"","put":{"xattrsSet":["# + repeatElement(element, count: 600_000)
                .joined(separator: ",") + "]}}]}"
            let error = #expect(throws: UbiquityError.self) {
                try WireCodec.decode(CommitRequest.self, from: Array(text.utf8), as: .json)
            }
            #expect(error.map { "\($0)".contains("entries") } == true)
        }
    }

    /// Answers of a hostile cloud.
    @Test func pageOfTinyEntriesIsRefused() {
        let pages: [[UInt8]] = [
            Self.many(1), Self.field(1, Self.many(10)), Self.field(1, Self.many(14)),
            Self.field(1, Self.field(12, Self.field(6, Self.many(1)))),
            Self.field(1, Self.field(14, Self.field(1, Self.field(6, Self.many(1))))),
        ]
        for (index, bytes) in pages.enumerated() {
            let error = #expect(throws: UbiquityError.self) {
                try WireCodec.decode(ChangePage.self, from: bytes, as: .protobuf)
            }
            #expect(error.map { "\($0)".contains("entries") } == true, "page \(index): \(error as Any)")
        }
    }

    /// The largest file that the cloud accepts, and an item with as many attributes as Linux can list.
    @Test func largestMessagesAreRead() throws {
        var request = try Sample.request()
        let manifest = Manifest(
            repeating: ChunkReference(id: try Sample.chunk(1), length: 3), count: Limits.maximumChunksPerContent)
        let content = ContentChange(
            version: VersionID(high: 1, low: 1), baseVersion: nil, size: Int64(manifest.count) * 3, manifest: manifest)
        let xattrs = (0..<12_000).map { Xattr(name: Array("\($0)".utf8), value: []) }
        request.changes = [
            ItemChange(
                id: ItemID(high: 1, low: 1), kind: .file, baseRevision: .zero, changedAt: .zero,
                action: .put(
                    ChangedFields(
                        xattrsSet: xattrs, content: content, earlier: xattrs.map { FieldTime(.xattr($0.name), at: .zero) })
                ))
        ]
        let bytes = try WireCodec.encode(request, as: .protobuf)
        #expect(try WireCodec.decode(CommitRequest.self, from: bytes, as: .protobuf) == request)
    }
}
