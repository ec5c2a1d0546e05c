import Testing
import UbiquityDatabase

@Suite struct StampTests {
    @Test func laterTimeDecidesBeforeDevice() {
        #expect(Stamp(1, DeviceID(9)) < Stamp(2, DeviceID(1)))
        #expect(Stamp(1, DeviceID(1)) < Stamp(1, DeviceID(2)))
        #expect(Stamp.migration < Stamp(1, DeviceID(0)))
    }
}
