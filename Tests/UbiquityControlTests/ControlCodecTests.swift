import Testing
import UbiquityControl
import UbiquityCore

@Suite struct ControlCodecTests {
    private func text(_ message: some Encodable) throws -> String {
        String(decoding: try ControlCodec.encode(message), as: UTF8.self)
    }

    @Test func namesOfKeysAreStable() throws {
        let event = ControlEvent(.itemMoved, time: 1.5, itemID: "ab", path: "b", oldPath: "a/x")
        #expect(try text(event) == #"{"itemID":"ab","kind":"item-moved","oldPath":"a/x","path":"b","time":1.5}"#)
        let result = ItemResult(
            path: "a", error: ControlFailure(UbiquityError(.busy, "open", at: "a", remedy: "end")))
        #expect(
            try text(result)
                == #"{"done":false,"error":{"code":"busy","message":"open","place":"a","remedy":"end"},"path":"a"}"#)
    }

    @Test func statusSurvivesTheWay() throws {
        let status = MountStatus(
            mountPoint: "/mnt/ä b", container: "default", account: "local",
            device: DeviceDescription(id: "00", name: "laptop"),
            cloud: CloudContact(address: "/run/cloud.sock", state: .signedOut, reason: "no", lastContact: 1),
            revision: 7, policy: "lazy", cacheLimit: nil, diskFloor: 1 << 40, cachedBytes: 5,
            uploads: TransferTotal(items: 1, bytes: 2), downloads: TransferTotal(items: 0, bytes: 0),
            pending: [
                PendingItem(path: "a\nb", direction: .upload, reason: .retrying, bytes: 3, error: "away", retryAt: 9)
            ],
            pendingOmitted: 0, passthrough: KernelFeatureStatus(isActive: false, reason: "not built"), bytesSent: 1,
            bytesReceived: 2, processID: 3, startedAt: 4, version: "1")
        let bytes = try ControlCodec.encode(status)
        #expect(!bytes.contains(UInt8(ascii: "\n")))
        #expect(try ControlCodec.decode(MountStatus.self, from: bytes) == status)
    }

    @Test func composedAndDecomposedNamesStayTwo() throws {
        // Two file names on Linux, one String in Swift: the bytes must come through as they were.
        let paths = ["caf\u{E9}", "cafe\u{301}"]
        let decoded = try ControlCodec.decode(
            PathsRequest.self, from: try ControlCodec.encode(PathsRequest(paths: paths)))
        #expect(decoded.paths.map { Array($0.utf8) } == paths.map { Array($0.utf8) })
    }

    @Test func failuresKeepCodeAndRemedy() throws {
        for code in UbiquityError.Code.allCases {
            let error = UbiquityError(code, "m", at: "p", remedy: "r")
            let bytes = try ControlCodec.encode(ControlFailure(error))
            #expect(try ControlCodec.decode(ControlFailure.self, from: bytes).error == error)
        }
    }

    @Test func unknownCodeOfANewerDaemonIsAFailureAllTheSame() throws {
        let text = #"{"code":"quantum","message":"m","place":"","remedy":""}"#
        #expect(try ControlCodec.decode(ControlFailure.self, from: text.utf8).error.code == .io)
    }

    @Test("the error names the field and the expected type", arguments: [
        ("{}", "'client' is missing"), (#"{"client":1,"items":[{"path":3,"use":"read"}]}"#, "not of type string in 'items.0.path'"),
        (#"{"client":1,"items":[{"path":"f","use":"eat"}]}"#, "unknown value in 'items.0.use'"), ("nonsense", "not JSON"),
        (#"{"client":"a","items":[]}"#, "not of type number in 'client'"), (#"{"client":1,"items":{}}"#, "not of type array in 'items'"),
        ("[]", "not of type object"),
    ])
    func reasons(_ text: String, _ reason: String) throws {
        let error = try #require(throws: UbiquityError.self) { try ControlCodec.decode(ClaimMessage.self, from: text.utf8) }
        #expect(error.message.contains(reason), "\(error.message)")
    }

    @Test(arguments: ["", "{}", "[1]", #"{"paths":3}"#, "\u{0}"])
    func nonsenseIsRefused(_ text: String) {
        #expect(throws: UbiquityError.self) { try ControlCodec.decode(PathsRequest.self, from: text.utf8) }
    }
}
