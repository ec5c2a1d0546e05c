import UbiquityControl
import UbiquityCore

/// A message of the local socket, with one that is valid.
private struct ControlKind: Sendable {
    let sample: @Sendable () throws -> [UInt8]
    /// Decodes the message and encodes it again. Throws `UbiquityError` for other bytes.
    let roundTrip: @Sendable ([UInt8]) throws -> [UInt8]

    init<Message: Codable & Sendable>(_ message: Message) {
        sample = { try ControlCodec.encode(message) }
        roundTrip = { bytes in try ControlCodec.encode(try ControlCodec.decode(Message.self, from: bytes)) }
    }

    static let all: [ControlKind] = [
        ControlKind(PathsRequest(paths: ["a", "b/c"])),
        ControlKind(WaitRequest(paths: ["a"], uploaded: true, downloaded: false, idle: true, timeout: 1.5)),
        ControlKind(DeletionsRequest(decision: .undo)),
        ControlKind(ResolveRequest(path: "a", keep: "current", process: 7)),
        ControlKind(RestoreRequest(path: "a", version: "0123", to: "b", process: 7)),
        ControlKind(TrashRequest(folder: "d", limit: 10)),
        ControlKind(TrashRestoreRequest(item: "0123", to: "x")),
        ControlKind(ClientRegistration(name: "editor", process: 7, answerTime: 2)),
        ControlKind(ClientLeave(client: 3)),
        ControlKind(ClientNews(.ask)),
        ControlKind(PresenterRegistration(client: 3, path: "a", abilities: ["save"])),
        ControlKind(PresenterRemoval(client: 3, presenter: 4)),
        ControlKind(PresenterAnswer(client: 3, question: 5, refusal: "busy")),
        ControlKind(
            ClaimMessage(
                client: 3, items: [ClaimItem(path: "a", use: .write, options: ["merging"])], presenter: 4, purpose: "p",
                seconds: 1, token: "t")),
        ControlKind(ClaimEnd(client: 3, claim: 9)),
        ControlKind(QueryRequest(scopes: QueryScope.allCases, predicate: "size > 1", folder: "d", isLive: true, interval: 1)),
        ControlKind(StopRequest(lazy: true)),
        ControlKind(LogRequest(level: "debug")),
        ControlKind(DoctorRequest(check: true, quick: true)),
        ControlKind(DoctorReport(
            findings: [DoctorFinding(kind: "k", subject: "s", detail: "d", outcome: .found)], contents: 1, items: 2,
            chunks: 3, cloudProblem: nil)),
        ControlKind(VersionsReport(path: "a", versions: [
            VersionReport(
                id: "1", kind: .conflict, name: nil, displayName: "a", device: "d", modifiedAt: 1.5, size: 3,
                isAvailable: true),
        ])),
        ControlKind(TrashReport(items: [
            TrashEntry(id: "1", path: "a", kind: "file", size: 1, deletedAt: 2, conflicts: 1)
        ], hasMore: false)),
        ControlKind(ControlFailure(UbiquityError(.busy, "m", at: "p", remedy: "r"))),
    ]
}

extension FuzzTarget {
    private static let controlMutator = Mutator(words: [
        "{", "}", "[", "]", ",", ":", "null", "true", "false", "\"\"", "-1", "0.5", "1e308", "1e999", "-0",
        "18446744073709551616", "\"\\u0000\"", "\"\\ud800\"", "\"timeout\":", "\"paths\":[", "\"limit\":", "\"client\":",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "\"interval\":",
    ])

    static let controlTargets = [
        FuzzTarget("control", testExecutions: 2500) { random in
            let kind = random.pick(ControlKind.all)
            let sample = try kind.sample()
            try require(try kind.roundTrip(sample) == sample, "a message changed in the round trip")
            let bytes = controlMutator.mutate(sample, with: try random.pick(ControlKind.all).sample(), &random)
            let found: [UInt8]
            do { found = try kind.roundTrip(bytes) } catch let error as UbiquityError {
                return try require(error.code == .invalid, "refused with \(error.code)")
            }
            try require(try kind.roundTrip(found) == found, "a message changed in the round trip")
        }
    ]
}
