import Testing
import UbiquityCore
import UbiquityWire

/// Fields of newer programs survive older devices and clouds. AW-06.
@Suite struct UnknownFieldTests {
    /// Field 99, length-delimited.
    private func field99(_ text: String) -> [UInt8] { [0x9A, 0x06, UInt8(text.utf8.count)] + Array(text.utf8) }
    /// Field 98, a number.
    private let field98: [UInt8] = [0x90, 0x06, 0x07]

    @Test func changeReplacesTheFieldsOfItsNumbers() throws {
        let first = try UnknownFields.merge(field99("xyz") + field98, into: [])
        #expect(first == field99("xyz") + field98)
        #expect(try UnknownFields.merge(field99("new"), into: first) == field98 + field99("new"))
        #expect(try UnknownFields.merge([], into: first) == first)
        // A repeated field keeps all its values.
        #expect(try UnknownFields.merge(field99("a") + field99("b"), into: first) == field98 + field99("a") + field99("b"))
    }

    @Test func fieldsOfOneItemAreLimited() {
        let many = (0..<50).flatMap { _ in field99(String(repeating: "x", count: 100)) }
        let error = #expect(throws: UbiquityError.self) { try UnknownFields.merge(many, into: []) }
        #expect(error?.code == .tooLarge)
    }

    @Test func changedFieldsKeepThemOnTheWire() throws {
        let fields = ChangedFields(mode: 0o600, unknownFields: field99("xyz"))
        let request = CommitRequest(
            id: RequestID(high: 1, low: 1), device: DeviceID(high: 1, low: 1), deviceName: "x",
            changes: [
                ItemChange(
                    id: ItemID(high: 1, low: 1), kind: .file, baseRevision: .zero, changedAt: .zero,
                    action: .put(fields))
            ])
        let bytes = try WireCodec.encode(request, as: .protobuf)
        #expect(try WireCodec.decode(CommitRequest.self, from: bytes, as: .protobuf) == request)
    }
}
