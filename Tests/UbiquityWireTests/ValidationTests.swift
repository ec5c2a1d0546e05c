import Testing
import UbiquityCore
import UbiquityWire

@Suite struct ValidationTests {
    private func refuses(_ request: CommitRequest, sourceLocation: SourceLocation = #_sourceLocation) throws {
        let bytes = try WireCodec.encode(request, as: .protobuf)
        let error = #expect(throws: UbiquityError.self, sourceLocation: sourceLocation) {
            try WireCodec.decode(CommitRequest.self, from: bytes, as: .protobuf)
        }
        #expect(error?.code == .invalid, sourceLocation: sourceLocation)
        #expect(throws: UbiquityError.self, sourceLocation: sourceLocation) { try request.check() }
    }

    private func refusesPut(
        _ fields: ChangedFields, of kind: ItemKind = .file, id: ItemID = ItemID(high: 1, low: 1),
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        var request = try Sample.request()
        request.changes = [
            ItemChange(id: id, kind: kind, baseRevision: .zero, changedAt: .zero, action: .put(fields))
        ]
        try refuses(request, sourceLocation: sourceLocation)
    }

    @Test func sampleIsValid() throws { try Sample.request().check() }

    @Test func countsAreLimited() throws {
        var request = try Sample.request()
        request.changes = []
        try refuses(request)
        let one = try Sample.request().changes[2]
        request.changes = Array(repeating: one, count: Limits.maximumChangesPerCommit + 1)
        try refuses(request)
        request = try Sample.request()
        request.deviceName = String(repeating: "x", count: 256)
        try refuses(request)
    }

    @Test func chunksAreLimited() throws {
        var request = try Sample.request()
        request.chunks = [Chunk(id: try Sample.chunk(1), bytes: [])]
        try refuses(request)
        let tooLong = [UInt8](repeating: 0, count: Limits.maximumChunkLength + 1)
        request.chunks = [Chunk(id: try Sample.chunk(1), bytes: tooLong)]
        try refuses(request)
        let largest = Chunk(id: try Sample.chunk(1), bytes: [UInt8](repeating: 0, count: Limits.maximumChunkLength))
        request.chunks = Array(repeating: largest, count: 5)
        try refuses(request)
    }

    @Test func fieldsMustSuitTheKind() throws {
        try refusesPut(ChangedFields(linkTarget: [1]), of: .file)
        try refusesPut(ChangedFields(linkTarget: []), of: .symlink)
        try refusesPut(ChangedFields(linkTarget: [1, 0]), of: .symlink)
        try refusesPut(ChangedFields(linkTarget: [UInt8](repeating: 1, count: 4096)), of: .symlink)
        let content = ContentChange(version: VersionID(high: 1, low: 1), baseVersion: nil, size: 0, manifest: [])
        try refusesPut(ChangedFields(content: content), of: .directory)
        try refusesPut(ChangedFields(mode: 0o10000), of: .file)
    }

    @Test func sizeAndManifestMustAgree() throws {
        let version = VersionID(high: 1, low: 1)
        func content(_ size: Int64, _ manifest: Manifest?) -> ChangedFields {
            ChangedFields(content: ContentChange(version: version, baseVersion: nil, size: size, manifest: manifest))
        }
        try refusesPut(content(-1, nil))
        try refusesPut(content(Limits.maximumFileSize + 1, nil))
        try refusesPut(content(1023, Sample.manifest()))
        try refusesPut(content(1, []))
        try refusesPut(content(0, [ChunkReference(id: Sample.chunk(1), length: 0)]))
        let tooLong = Limits.maximumChunkLength + 1
        try refusesPut(content(Int64(tooLong), [ChunkReference(id: Sample.chunk(1), length: tooLong)]))
    }

    @Test func topFolderCannotBeChanged() throws {
        try refusesPut(ChangedFields(place: Place(parent: .root, name: ItemName("a"))), of: .directory, id: .root)
        try refusesPut(ChangedFields(mode: 0), of: .file, id: .root)
        var request = try Sample.request()
        request.changes = [
            ItemChange(id: .root, kind: .directory, baseRevision: .zero, changedAt: .zero, action: .delete)
        ]
        try refuses(request)
    }

    @Test func attributesAreChecked() throws {
        let attribute = Xattr(name: Array("user.a".utf8), value: [])
        try refusesPut(ChangedFields(xattrsSet: [attribute, attribute]))
        try refusesPut(ChangedFields(xattrsSet: [attribute], xattrsRemoved: [attribute.name]))
        try refusesPut(ChangedFields(xattrsRemoved: [[]]))
        let large = Xattr(name: [65], value: [UInt8](repeating: 0, count: Limits.maximumXattrBytes))
        try refusesPut(ChangedFields(xattrsSet: [large]))
    }

    @Test func timesOfFieldsAreChecked() throws {
        let mode = FieldTime(.mode, at: .zero)
        try refusesPut(ChangedFields(mode: 0, earlier: [mode, mode]))
        try refusesPut(ChangedFields(mode: 0, earlier: [FieldTime(.xattr(Array("user.a".utf8)), at: .zero)]))
    }

    @Test func badNamesAreRefused() throws {
        for bad in ["", ".", "..", "a/b", "a\0", String(repeating: "x", count: 256)] {
            let place = Place(parent: .root, name: ItemName(stored: Array(bad.utf8)))
            try refusesPut(ChangedFields(place: place), of: .directory)
        }
    }

    /// Protobuf by hand: bytes that no encoder of this project writes.
    @Test(arguments: [
        [0x0A, 0x02, 1, 2],  // id of 2 bytes
        [0xFF],  // cut off
        [0x22, 0x05, 1],  // a length beyond the end
        [],  // nothing at all
    ] as [[UInt8]])
    func nonsenseIsRefused(_ bytes: [UInt8]) {
        let error = #expect(throws: UbiquityError.self) {
            try WireCodec.decode(CommitRequest.self, from: bytes, as: .protobuf)
        }
        #expect(error?.code == .invalid)
    }

    /// Empty changes of two bytes each, which would take a hundred times as much memory before they are counted.
    @Test func moreEntriesThanACommitHasAreNotRead() throws {
        let protobuf = [UInt8]([[0x22, 0]].joined()), count = 100 * Limits.maximumChangesPerCommit + 1
        let bytes = [UInt8](repeatElement(protobuf, count: count).joined())
        let json = Array(#"{"changes":["#.utf8) + repeatElement(Array("{},".utf8), count: 5 * count).joined() + Array("{}]}".utf8)
        // After a group, which the decoder skips.
        for (bytes, format) in [(bytes, WireFormat.protobuf), ([0x7B, 0x7C] + bytes, .protobuf), (json, .json)] {
            let error = #expect(throws: UbiquityError.self) {
                try WireCodec.decode(CommitRequest.self, from: bytes, as: format)
            }
            #expect(error.map { "\($0)".contains("more than") && "\($0)".contains("entries") } == true)
        }
    }

    /// `{ id: 16 bytes, kind, parent: 16 bytes, name: "a" }` as the field of this tag.
    private func item(kind: UInt8, tag: UInt8) -> [UInt8] {
        let id = [UInt8](repeating: 1, count: 16)
        let item: [UInt8] = [0x0A, 16] + id + [0x10, kind] + [0x2A, 16] + id + [0x32, 1, 0x61]
        return [tag, UInt8(item.count)] + item
    }

    /// A newer version may send unknown kinds of items: this version continues with all others.
    @Test func unknownKindIsSkippedInTheFeed() throws {
        let page = try WireCodec.decode(
            ChangePage.self, from: item(kind: 9, tag: 0x0A) + item(kind: 2, tag: 0x0A), as: .protobuf)
        #expect(page.items.map(\.kind) == [.directory])
    }

    /// In the answer to this device's own commit an unknown kind is refused.
    @Test func unknownKindIsRefusedWithReason() {
        // CommitResponse { results: { outcome: applied, item } }
        let result: [UInt8] = [0x08, 1] + item(kind: 9, tag: 0x1A)
        let error = #expect(throws: UbiquityError.self) {
            try WireCodec.decode(CommitResponse.self, from: [0x12, UInt8(result.count)] + result, as: .protobuf)
        }
        #expect(error?.message.contains("kind 9") == true)
    }

    @Test func oversizedMessageIsRefusedUnread() {
        let error = #expect(throws: UbiquityError.self) {
            try WireCodec.decode(
                News.self, from: [UInt8](repeating: 0, count: Limits.maximumMessageLength + 1), as: .protobuf)
        }
        #expect(error?.code == .tooLarge)
    }

    @Test func itemsOfTheCloudAreChecked() throws {
        func refuses(_ change: (inout RemoteItem) -> Void, sourceLocation: SourceLocation = #_sourceLocation) throws {
            var item = try Sample.file()
            change(&item)
            let bytes = try WireCodec.encode(ChangePage(items: [item], revision: .zero, hasMore: false), as: .json)
            #expect(throws: UbiquityError.self, sourceLocation: sourceLocation) {
                try WireCodec.decode(ChangePage.self, from: bytes, as: .json)
            }
        }
        try refuses { $0.content = nil }
        try refuses { $0.content?.size = 1 }
        try refuses { $0.content?.isAvailable = false }
        try refuses { $0.linkTarget = [1] }
        try refuses { $0.revision = Revision(-1) }
        try refuses { $0.kind = .symlink }
        try refuses { $0.mode = 0o100644 }
        try refuses { $0.id = .root }
    }
}
