import Testing
@testable import Ubiquity
import UbiquityControl
import UbiquityCore

/// The memory of a key-value store in an app.
@Suite struct KeyValueMemoryTests {
    private func list(_ values: [String: PropertyValue], account: String = "a") -> KeyValueList {
        let items = values.map { key, value in
            KeyValueReport(
                store: "default", key: key,
                current: KeyValueVersion(
                    value: KeyValueContent(value), time: 1, device: "", deviceName: ""),
                previous: nil, isPending: false)
        }
        return KeyValueList(store: "default", account: account, items: items, pending: 0, failure: nil)
    }

    @Test("KV-10: a set is in memory at once, and stays over the daemon's older values until it is written")
    func setStaysUntilItIsWritten() throws {
        var memory = KeyValueMemory()
        let key = try KeyValueKey("k")
        try memory.set(.integer(2), key)
        _ = try memory.load(list(["k": .integer(1), "other": .bool(true)]))
        #expect(memory.values[key] == .integer(2) && !memory.isWritten)
        memory.wrote(key, .integer(2))
        #expect(memory.isWritten)
        #expect(try memory.load(list(["k": .integer(3)])).keys.map(\.text) == ["k", "other"])
        #expect(memory.values == [key: .integer(3)])
    }

    @Test("KV-03, KV-14: a set over the limits changes nothing, exact to the byte")
    func setOverTheLimitChangesNothing() throws {
        var memory = KeyValueMemory()
        let key = try KeyValueKey("k"), other = try KeyValueKey("o")
        let whole = PropertyValue.data([UInt8](repeating: 1, count: KeyValueLimits.maximumBytes))
        try memory.set(whole, key)
        try memory.set(.string(""), other)
        let before = memory.values
        #expect(throws: UbiquityError.self) { try memory.set(.string("a"), other) }
        #expect(throws: UbiquityError.self) { try memory.set(.real(.nan), other) }
        #expect(memory.values == before)
        try memory.set(nil, key)
        for number in 1..<KeyValueLimits.maximumKeys { try memory.set(.bool(true), KeyValueKey("\(number)")) }
        #expect(throws: UbiquityError.self) { try memory.set(.bool(true), key) }
    }

    @Test("KV-12: values of another account are recognized")
    func otherAccountIsRecognized() throws {
        var memory = KeyValueMemory()
        #expect(try memory.load(list(["k": .integer(1)])).isOtherAccount == false)
        let change = try memory.load(list(["l": .integer(1)], account: "b"))
        #expect(change.isOtherAccount && change.keys.map(\.text) == ["k", "l"])
    }
}
