import Testing
import UbiquityCore

@Suite struct ValueTests {
    @Test func timesBeforeTheEpochRoundDown() {
        let time = Timestamp(seconds: -2, nanoseconds: 250_000_000)
        #expect(time.seconds == -2)
        #expect(time.subsecondNanoseconds == 250_000_000)
        #expect(time.nanoseconds == -1_750_000_000)
    }

    @Test func timesOutOfRangeAreClamped() {
        #expect(Timestamp(seconds: .max, nanoseconds: 0).nanoseconds == .max)
        #expect(Timestamp(seconds: .min, nanoseconds: 0).nanoseconds == .min)
        #expect(Timestamp(nanoseconds: .max).advanced(bySeconds: 1e6).nanoseconds == .max)
        #expect(Timestamp.zero.advanced(bySeconds: 1.5).nanoseconds == 1_500_000_000)
    }

    @Test func everyTimeHasAText() {
        #expect(CivilTime.text(Timestamp(nanoseconds: .min)) == "1677-09-21T00:12:43.145Z")
        #expect(CivilTime.text(Timestamp(nanoseconds: .max)) == "2262-04-11T23:47:16.854Z")
        #expect(CivilTime.text(seconds: -62_135_596_800) == "0001-01-01T00:00:00")
        // As in messages: seconds, rounded to the precision of a double.
        for limit in [Timestamp(nanoseconds: .min), Timestamp(nanoseconds: .max)] {
            #expect(Timestamp(seconds: Double(limit.nanoseconds) / 1e9) == limit)
        }
        #expect(Timestamp(seconds: -1.5).nanoseconds == -1_500_000_000)
        #expect(Timestamp(seconds: .nan) == .zero)
        #expect(Timestamp(seconds: -.infinity).nanoseconds == .min)
    }

    @Test func hexadecimalTextIsCoded() {
        #expect(Hex.encode([0, 0xff, 0x1a]) == "00ff1a")
        #expect(Hex.decode("00FF1a") == [0, 0xff, 0x1a])
        #expect(Hex.decode("0") == nil)
        #expect(Hex.decode("0g") == nil)
        #expect(Hex.decode("") == [])
    }

    @Test func errorsNameCausePlaceAndRemedy() {
        let error = UbiquityError(.busy, "cannot evict", at: "/a/b", remedy: "close it")
        #expect(error.description == "cannot evict (/a/b); close it")
        #expect(UbiquityError(.busy, "cannot evict").description == "cannot evict")
    }
}
