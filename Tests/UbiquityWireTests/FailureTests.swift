import Testing
import UbiquityCore
import UbiquityWire

@Suite struct FailureTests {
    private struct Secret: Error {}

    @Test(arguments: UbiquityError.Code.allCases) func everyFailureSurvivesARoundTrip(_ code: UbiquityError.Code) throws {
        let failure = WireFailure(UbiquityError(code, "what", at: "where", remedy: "do"))
        #expect((400...599).contains(failure.status))
        let body = try WireCodec.encode(failure, as: .json)
        #expect(WireFailure(status: failure.status, body: body, as: .json) == failure)
    }

    @Test func missingChunksAreThrown() throws {
        let missing = MissingChunks(ids: [try Sample.chunk(4)])
        let failure = WireFailure(missing)
        let body = try WireCodec.encode(failure, as: .protobuf)
        let back = WireFailure(status: failure.status, body: body, as: .protobuf)
        #expect(back.thrown as? MissingChunks == missing)
    }

    @Test func outdatedCommitIsThrown() throws {
        let outdated = OutdatedCommit(last: 12)
        let failure = WireFailure(outdated)
        let body = try WireCodec.encode(failure, as: .json)
        let back = WireFailure(status: failure.status, body: body, as: .json)
        #expect(back.thrown as? OutdatedCommit == outdated)
    }

    @Test func packageConflictIsThrown() throws {
        let conflict = PackageConflict(
            package: ItemID(high: 1, low: 2), revision: Revision(7), isYoursNewer: true,
            modifiedAt: Timestamp(nanoseconds: 12), device: DeviceID(high: 3, low: 4),
            deviceName: "there")
        let failure = WireFailure(conflict)
        let body = try WireCodec.encode(failure, as: .protobuf)
        #expect(WireFailure(status: failure.status, body: body, as: .protobuf).thrown as? PackageConflict == conflict)
    }

    @Test func unreadableBodyIsNotFromTheCloud() {
        let page = Array("<html>Log in to the hotel".utf8)
        // A 401 of a proxy is not from the cloud: the cloud itself says that it does not know the token.
        #expect(WireFailure(status: 401, body: [], as: nil).error.code == .offline)
        #expect(WireFailure(status: 302, body: page, as: .json).error.code == .offline)
        #expect(WireFailure(status: 502, body: page, as: nil).error.code == .offline)
        #expect(WireFailure(status: 418, body: page, as: .json).error.code == .offline)
        #expect(WireFailure(status: 404, body: page, as: .json).error.code == .offline)
        #expect(WireFailure(status: 429, body: [], as: .protobuf).error.code == .offline)
    }

    @Test func foreignErrorsTellOnlyTheirKind() {
        #expect(WireFailure(Secret()).error.code == .io)
        #expect(WireFailure(CancellationError()).error.code == .cancelled)
    }

    @Test func longTextsAreCut() throws {
        let long = WireFailure(UbiquityError(.io, String(repeating: "\u{1F600}", count: 5000)))
        let body = try WireCodec.encode(long, as: .protobuf)
        let back = WireFailure(status: 500, body: body, as: .protobuf)
        #expect(back.error.message.utf8.count == 4096)
    }
}
