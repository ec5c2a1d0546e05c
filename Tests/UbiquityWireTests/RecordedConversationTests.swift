import Foundation
import Testing
import UbiquityCore
import UbiquityWire

/// A conversation of two devices with a cloud, recorded in November 2026 with version 0.1.0: commits, chunks, pages,
/// versions and the trash. Every later program reads it. AW-05, AW-06.
@Suite struct RecordedConversationTests {
    private struct Exchange: Decodable {
        var method: String
        var path: String
        var contentType: String?
        var body: Data
        var status: Int
        var answerType: String?
        var answer: Data
    }

    private static func exchanges() throws -> [Exchange] {
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Fixtures/wire-1.jsonl")
        return try Data(contentsOf: file).split(separator: UInt8(ascii: "\n")).map {
            try JSONDecoder().decode(Exchange.self, from: $0)
        }
    }

    /// Reads a message, and once more after it was written.
    private func read<Message: WireValue & Equatable>(_ type: Message.Type, _ bytes: Data) throws -> Message {
        let message = try WireCodec.decode(type, from: Array(bytes), as: .protobuf)
        let again = try WireCodec.encode(message, as: .protobuf)
        #expect(try WireCodec.decode(type, from: again, as: .protobuf) == message)
        return message
    }

    @Test func everyRecordedMessageIsRead() throws {
        var names = Set<String>(), commits = 0, unread = [String]()
        for exchange in try Self.exchanges() {
            let path = String(exchange.path.prefix { $0 != "?" })
            switch (exchange.method, path.split(separator: "/").dropFirst(3).first.map(String.init) ?? "") {
            case ("POST", ""):
                let description = try read(ContainerDescription.self, exchange.answer)
                // The recorded cloud names no features: every program may use it.
                #expect(description.features == FormatFeatures() && description.account == "ann")
            case ("GET", "changes"):
                for item in try read(ChangePage.self, exchange.answer).items { names.insert(item.name.description) }
            case ("POST", "commit"):
                let request = try read(CommitRequest.self, exchange.body)
                #expect(try read(CommitResponse.self, exchange.answer).results.count == request.changes.count)
                commits += 1
            case ("GET", "items"): #expect(try read(ItemVersions.self, exchange.answer).versions.count == 2)
            case ("GET", "trash"): _ = try read(TrashPage.self, exchange.answer)
            case ("GET", "usage"): _ = try read(CloudUsage.self, exchange.answer)
            case ("POST", "chunks"):
                if path.hasSuffix("missing") { _ = try read(ChunkIDs.self, exchange.answer) }
                if exchange.contentType == WireFormat.protobuf.mediaType { _ = try read(ChunkIDs.self, exchange.body) }
            default: unread.append("\(exchange.method) \(path)")
            }
        }
        #expect(unread == [])
        #expect(commits > 3)
        #expect(names.isSuperset(of: ["Documents", "Talk.key", "letter", "slide", "link2", "hard", "big", "gone"]))
    }
}
