import Testing
@testable import UbiquityCloudClient
import UbiquityCore

@Suite struct EventParserTests {
    private func parse(_ text: String, pieces: Int) throws -> [Int64] {
        var parser = EventParser()
        var found = [Int64]()
        let bytes = Array(text.utf8)
        for start in stride(from: 0, to: bytes.count, by: pieces) {
            let part = Array(bytes[start..<min(start + pieces, bytes.count)])
            found += try part.withUnsafeBytes { try parser.push($0) }.map { event in
                switch event {
                case .revision(let revision): revision.number
                case .keyValues(let revision): -revision.number
                }
            }
        }
        return found
    }

    @Test(arguments: [1, 2, 3, 7, 1000]) func revisionEventsAreParsed(_ pieces: Int) throws {
        let text = ": hello\n\nevent: revision\ndata: {\"revision\":7}\n\n: still here\n\n"
            + "event:revision\r\ndata:{ \"revision\" : 9 }\r\n\r\nevent: other\ndata: x\n\nevent: revision\n"
        #expect(try parse(text, pieces: pieces) == [7, 9])
    }

    @Test func keyValueEventsAreParsedApartFromRevisions() throws {
        let text = "event: keyvalues\ndata: {\"revision\":3}\n\nevent: revision\ndata: {\"revision\":4}\n\n"
        #expect(try parse(text, pieces: 5) == [-3, 4])
    }

    @Test(arguments: [
        "event: revision\ndata: {}\n\n", "event: revision\n\n", "event: revision\ndata: {\"revision\":-1}\n\n",
        "event: revision\ndata: {\"revision\":99999999999999999999}\n\n",
        "data: " + String(repeating: "x", count: 5000),
    ]) func malformedEventsAreRefused(_ text: String) {
        #expect(throws: UbiquityError.self) { try parse(text, pieces: 100) }
    }

    @Test func failureOfTheCloudIsThrown() {
        let text = "event: failure\ndata: {\"code\":\"signedOut\",\"message\":\"this device's token was revoked\"}\n\n"
        let error = #expect(throws: UbiquityError.self) { try parse(text, pieces: 7) }
        #expect(error?.code == .signedOut && error?.message == "this device's token was revoked")
    }
}
