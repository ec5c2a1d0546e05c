import Testing
import UbiquityCore
import UbiquityWire

@Suite struct RoundTripTests {
    private func check<Value: WireValue & Equatable>(_ value: Value, _ format: WireFormat) throws {
        let bytes = try WireCodec.encode(value, as: format)
        #expect(try WireCodec.decode(Value.self, from: bytes, as: format) == value)
    }

    @Test(arguments: WireFormat.allCases) func everyMessageSurvivesARoundTrip(_ format: WireFormat) throws {
        try check(CloudUsage(usedBytes: 12, quotaBytes: 5_000_000_000), format)
        let container = try #require(ContainerID("notes"))
        try check(
            ContainerDescription(
                container: container, account: "local", incarnation: .max, revision: Revision(3),
                usage: CloudUsage(usedBytes: 0, quotaBytes: 1)), format)
        try check(ChangePage(items: try Sample.items(), revision: Revision(77), hasMore: true), format)
        try check(ChangePage(items: [], revision: Revision(77), hasMore: false, isIncomplete: true), format)
        var links = ChangePage(items: [], revision: Revision(77), hasMore: false)
        links.links = [:]
        try check(links, format)
        links.links = [ItemID(high: 1, low: 2): 3, ItemID(high: 9, low: 0): 70_000]
        try check(links, format)
        try check(try Sample.request(), format)
        try check(try Sample.response(), format)
        try check(News(revision: Revision(.max)), format)
        try check(ChunkIDs([try Sample.chunk(7), try Sample.chunk(8)]), format)
        try check(VersionManifest(try Sample.manifest()), format)
        try check(VersionManifest([]), format)
        try check(ItemVersions(try RemoteVersion.Kind.allCases.map(Sample.version)), format)
        try check(ItemVersions([], isIncomplete: true), format)
        let trashed = TrashedItem(
            item: try Sample.items()[1], deletedAt: Timestamp(nanoseconds: 5), device: Sample.device, path: "a/d")
        try check(TrashPage(items: [trashed], hasMore: true), format)
        try check(
            WireFailure(
                error: UbiquityError(.missingChunks, "m", at: "p", remedy: "r"), missingChunks: [try Sample.chunk(1)]),
            format)
    }

    @Test func namesKeepTheirBytes() throws {
        var item = try Sample.file()
        let bytes = try WireCodec.encode(ChangePage(items: [item], revision: .zero, hasMore: false), as: .protobuf)
        let back = try WireCodec.decode(ChangePage.self, from: bytes, as: .protobuf)
        #expect(back.items[0].name.bytes == Array("cafe\u{301}.txt".utf8))
        item.name = try ItemName("caf\u{e9}.txt")
        #expect(back.items[0].name != item.name)
    }

    @Test func fieldsOfANewerCloudAreKept() throws {
        // Field 99, length-delimited, "xyz": unknown to this version.
        let unknown: [UInt8] = [0x9A, 0x06, 0x03, 0x78, 0x79, 0x7A]
        var item = try Sample.file()
        item.unknownFields = unknown
        let page = ChangePage(items: [item], revision: .zero, hasMore: false)
        let bytes = try WireCodec.encode(page, as: .protobuf)
        #expect(try WireCodec.decode(ChangePage.self, from: bytes, as: .protobuf) == page)
    }

    @Test func jsonOfANewerProgramIsRead() throws {
        let text = #"{"revision":"12","somethingNew":[1,{"a":2}]}"#
        #expect(try WireCodec.decode(News.self, from: Array(text.utf8), as: .json).revision == Revision(12))
    }

    @Test func mediaTypesAreFound() {
        #expect(WireFormat(mediaType: "application/x-protobuf") == .protobuf)
        #expect(WireFormat(mediaType: "Application/JSON; charset=utf-8") == .json)
        #expect(WireFormat(mediaType: "text/html, application/json;q=0.9, */*") == .json)
        #expect(WireFormat(mediaType: "*/*") == .json)
        #expect(WireFormat(mediaType: "text/html") == nil)
    }
}
