import Testing
import UbiquityCore

/// Values, limits and the order of sets in the key-value store.
@Suite struct KeyValueTests {
    private static let values: [PropertyValue] = [
        .string(""), .string("Zürich"), .integer(.min), .integer(42), .real(-0.5), .bool(true), .bool(false),
        .date(1_700_000_000.25), .data([]), .data([0, 255]), .array([]),
        .array([.string("a"), .array([.integer(1)]), .dictionary(["k": .bool(false)])]),
        .dictionary(["b": .data([1]), "a": .dictionary([:])]),
    ]

    @Test("KV-02: each type of a property list survives its encoding", arguments: values)
    func everyTypeSurvivesEncoding(_ value: PropertyValue) throws {
        #expect(try PropertyValue(encoded: value.encoded()) == value)
    }

    @Test("KV-02: bytes that are no value are refused", arguments: [
        [], [0], [9, 1], [2, 1], [4, 2], [1, 0xFF], [7, 5, 1], [8, 1, 65], [7, 0x80, 0x80, 0x80, 0x80, 0x80, 1],
    ] as [[UInt8]])
    func malformedBytesAreRefused(_ bytes: [UInt8]) {
        #expect(throws: UbiquityError.self) { try PropertyValue(encoded: bytes) }
    }

    @Test("KV-02: a value that is nested too deep is refused in both directions")
    func deepValuesAreRefused() throws {
        var value = PropertyValue.integer(1)
        for _ in 0..<PropertyValue.maximumDepth { value = .array([value]) }
        let bytes = try value.encoded()
        #expect(try PropertyValue(encoded: bytes) == value)
        #expect(throws: UbiquityError.self) { try PropertyValue.array([value]).encoded() }
    }

    @Test("KV-03, KV-04: sizes of strings and data count their bytes, and the limit is exact to the byte")
    func sizesAreExact() throws {
        #expect(PropertyValue.size(ofEncoded: try PropertyValue.string("Zürich").encoded()) == 7)
        #expect(PropertyValue.size(ofEncoded: try PropertyValue.integer(7).encoded()) == 8)
        let whole = try PropertyValue.data([UInt8](repeating: 1, count: KeyValueLimits.maximumBytes)).encoded()
        let empty = KeyValueUsage()
        try empty.replacing(nil, with: whole).requireAllowed(after: empty)
        #expect(throws: UbiquityError.self) {
            try empty.replacing(nil, with: whole + [1]).requireAllowed(after: empty)
        }
        // A store that exceeds the limit by the sets of other devices may become smaller.
        let over = KeyValueUsage(keys: 1030, bytes: KeyValueLimits.maximumBytes + 10)
        try over.replacing([6, 1, 2], with: [6, 1]).requireAllowed(after: over)
        #expect(throws: UbiquityError.self) { try over.replacing(nil, with: [6]).requireAllowed(after: over) }
    }

    @Test("KV-03: keys have 1 to 64 bytes of UTF-8")
    func keysAreLimited() throws {
        _ = try KeyValueKey(String(repeating: "ü", count: 32))
        for text in ["", String(repeating: "a", count: 65), "a\0b"] {
            #expect(throws: UbiquityError.self) { try KeyValueKey(text) }
        }
        #expect(try KeyValueKey("\u{e9}") != KeyValueKey("e\u{301}"))
    }

    private func entry(_ time: Int64, _ device: UInt64) -> KeyValueEntry {
        KeyValueEntry(
            value: [2, 0, 0, 0, 0, 0, 0, 0, UInt8(time)],
            stamp: KeyValueStamp(time: time, device: DeviceID(high: 0, low: device)), deviceName: "",
            mark: UInt64(time) << 8 | device)
    }

    @Test("KV-07, KV-15: any order of sets gives the same current and previous value")
    func orderOfArrivalDoesNotMatter() {
        let sets = [entry(1, 1), entry(2, 1), entry(2, 2), entry(3, 1), entry(3, 3)]
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            let order = (sets + sets).shuffled(using: &generator)
            var register = KeyValueRegister(order[0])
            for entry in order.dropFirst() { _ = register.merge(entry) }
            #expect(register == KeyValueRegister(entry(3, 3), previous: entry(3, 1)))
        }
    }

    @Test("KV-07: a clock that is a year off is corrected, and a set after a seen one is later")
    func wrongClocksAreCorrected() {
        let year: Int64 = 365 * 86_400_000_000_000, now: Int64 = 1_800_000_000_000_000_000
        func time(_ error: Int64, seen: Int64 = 0, ago: Int64 = 5) -> Int64 {
            KeyValueClock.time(
                changedAt: now + error - ago, sentAt: now + error, seen: seen, now: now, latest: now)
        }
        #expect(time(0) == now - 5)
        #expect(time(year) == now - 5)
        #expect(time(-year) == now - 5)
        #expect(time(-year, seen: now) == now + 1)
        // A device cannot have seen a time that no store has.
        #expect(time(0, seen: .max) == now + 1)
        #expect(KeyValueClock.time(changedAt: .max, sentAt: .min, seen: .min, now: now, latest: .min) <= now)
    }

    @Test func base64EqualsItsRules() {
        let known = ["": "", "f": "Zg==", "fo": "Zm8=", "foo": "Zm9v", "foob": "Zm9vYg==", "fooba": "Zm9vYmE="]
        for (text, encoded) in known {
            #expect(Base64.encode(Array(text.utf8)) == encoded)
            #expect(Base64.decode(encoded) == Array(text.utf8))
        }
        for text in ["Zg=", "Zg", "Z===", "Zm8*", "=Zg="] { #expect(Base64.decode(text) == nil) }
    }
}
