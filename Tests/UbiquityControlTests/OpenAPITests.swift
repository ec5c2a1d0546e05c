import Foundation
import Testing
import UbiquityControl

/// Compares the limits of texts in `openapi.json` with those in the code.
@Suite struct OpenAPITests {
    private static let known: [String: [String]] = [
        "ClaimItem.use": texts(ClaimItem.Use.self),
        "ClientNews.kind": texts(ClientNews.Kind.self),
        "CloudContact.state": texts(CloudContact.State.self),
        "ControlEvent.kind": texts(ControlEvent.Kind.self),
        "ControlEvent.state": texts(CloudContact.State.self),
        "DeletionsRequest.decision": texts(DeletionsRequest.Decision.self),
        "DoctorFinding.outcome": texts(DoctorFinding.Outcome.self),
        "ItemReport.downloadingStatus": texts(ItemReport.DownloadingStatus.self),
        "MetadataRecord.downloadingStatus": texts(ItemReport.DownloadingStatus.self),
        "PendingItem.direction": texts(PendingItem.Direction.self),
        "PendingItem.reason": texts(PendingItem.Reason.self),
        "QueryNews.kind": texts(QueryNews.Kind.self),
        "QueryRequest.scopes.items": texts(QueryScope.self),
        "ResolveReport.awaits": texts(VersionAwaits.self),
        "RestoreReport.awaits": texts(VersionAwaits.self),
        "SyncControlRequest.action": texts(SyncControlRequest.Action.self),
        "VersionAddition.origin": texts(VersionOrigin.self),
        "VersionReport.kind": texts(VersionReport.Kind.self),
        "VersionReport.origin": texts(VersionOrigin.self),
    ]

    private static func texts<Word: CaseIterable & RawRepresentable>(_ words: Word.Type) -> [String]
    where Word.RawValue == String { words.allCases.map(\.rawValue).sorted() }

    @Test("the limits of texts in the OpenAPI file equal those of the program")
    func enumerations() throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Sources/UbiquityControl/openapi.json")
        let api = try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any]
        let schemas = (api?["components"] as? [String: Any])?["schemas"] as? [String: Any]
        var found: [String: [String]] = [:]
        for (name, schema) in try #require(schemas) { Self.collect(schema, name, &found) }
        #expect(found == Self.known)
    }

    private static func collect(_ value: Any, _ place: String, _ found: inout [String: [String]]) {
        for part in value as? [Any] ?? [] { collect(part, place, &found) }
        for (key, part) in value as? [String: Any] ?? [:] {
            if key == "enum", let words = part as? [String] { found[place] = words.sorted() }
            collect(part, key == "properties" || key == "allOf" ? place : place + "." + key, &found)
        }
    }
}
