import AsyncHTTPClient
import Logging
import NIOCore
import NIOHTTP1
import Testing
import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// Failed sign-ins: logged, slowed down, never locked out for ever.
@Suite struct FailedSignInTests {
    private let time = Lock(Duration.zero)
    private let failures: FailedSignIns
    private let origin = FailedSignIns.Origin(address: "192.0.2.7", account: "alice")

    init() {
        let time = time
        failures = FailedSignIns(free: ServerLimits.freeSignInFailures, uptime: { time.withLock { $0 } })
    }

    private func wait(_ seconds: Int) { time.withLock { $0 += .seconds(seconds) } }
    private func fail(_ origin: FailedSignIns.Origin, times: Int) {
        for _ in 0..<times { failures.fail(origin, logger: Harness.logger) }
    }

    /// Seconds until the next attempt; nil if it is possible now.
    private func pause(_ origin: FailedSignIns.Origin, token: String = "guess") -> Int? {
        do {
            try failures.admit(origin, token: token)
            return nil
        } catch {
            return (error as? SlowedSignIn)?.seconds
        }
    }

    @Test func pausesDoubleUpToALimitAndEnd() {
        fail(origin, times: ServerLimits.freeSignInFailures)
        #expect(pause(origin) == nil)
        var pauses = [Int]()
        for _ in 0..<9 {
            fail(origin, times: 1)
            pauses.append(pause(origin) ?? 0)
        }
        #expect(pauses == [2, 3, 5, 9, 17, 33, 61, 61, 61])
        wait(60)
        #expect(pause(origin) == nil)
        // A quarter of an hour later the failures are forgotten.
        wait(901)
        fail(origin, times: ServerLimits.freeSignInFailures)
        #expect(pause(origin) == nil)
    }

    @Test func addressesAndAccountsAreSlowedDownApart() {
        fail(origin, times: 20)
        let sameAddress = FailedSignIns.Origin(address: "192.0.2.7", account: nil)
        let sameAccount = FailedSignIns.Origin(address: "198.51.100.1", account: "alice")
        let other = FailedSignIns.Origin(address: "198.51.100.1", account: "bob")
        #expect(pause(sameAddress) != nil && pause(sameAccount) != nil && pause(other) == nil)
        // One network of IPv6 counts as one address.
        let first = FailedSignIns.Origin(address: "2001:db8::1", account: nil)
        fail(first, times: 20)
        #expect(pause(FailedSignIns.Origin(address: "2001:db8::2", account: nil)) != nil)
        // The cloud's own socket has no address.
        let socket = FailedSignIns.Origin(address: nil, account: "alice")
        fail(socket, times: 20)
        #expect(pause(socket) == nil)
    }

    @Test func acceptedTokenIsNotSlowedDown() {
        failures.accept(token: "good")
        fail(origin, times: 20)
        #expect(pause(origin, token: "good") == nil)
        #expect(pause(origin) != nil)
    }

    @Test func manyAddressesAreForgottenOldestFirst() {
        fail(origin, times: 20)
        for number in 0..<(2 * ServerLimits.rememberedSignIns) {
            let address = "10.\(number / 65536).\(number / 256 % 256).\(number % 256)"
            fail(FailedSignIns.Origin(address: address, account: nil), times: 1)
        }
        #expect(pause(origin) != nil)
    }

    @Test func deviceWithItsTokenGoesOnWhileItsAddressIsSlowedDown() async throws {
        var rules = ConnectionRules()
        rules.uptime = { [time] in time.withLock { $0 } }
        try await RealCloud.run(rules: rules) { _, web, cloud in
            let token = try await cloud.createAccount("alice")
            let device = try RealCloud.client(web, token: token, device: 1)
            _ = try await device.open()
            let other = try await cloud.createAccount("bob")
            var statuses = [Int]()
            for number in 0..<(ServerLimits.freeSignInFailures + 2) {
                var request = HTTPClientRequest(url: Plain.base(web) + "/v1/rights")
                request.headers.add(name: "authorization", value: "Bearer guess-\(number)")
                let response = try await HTTPClient.shared.execute(request, timeout: .seconds(20))
                statuses.append(Int(response.status.code))
                if response.status.code == 429 {
                    #expect(response.headers.first(name: "retry-after").flatMap { Int($0) } ?? 0 >= 1)
                }
                _ = try await response.body.collect(upTo: 1 << 16)
            }
            #expect(statuses.dropLast().allSatisfy { $0 == 401 } && statuses.last == 429, "\(statuses)")
            #expect(try await device.usage().usedBytes == 0)
            // A new device waits; nothing but time is needed.
            let new = try CloudAdministrator(web, token: other)
            let refused = await #expect(throws: UbiquityError.self) { _ = try await new.rights() }
            #expect(refused?.code == .tooManyRequests)
            wait(1)
            #expect(try await new.rights().account == "bob")
            await new.shutdown()
            await device.shutdown()
        }
    }
}
