import Testing
import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// Sign-in by code: shown by the device, confirmed elsewhere, limited in attempts and in time.
@Suite struct SignInCodeTests {
    private static let laptop = SignInRequest(account: "alice", device: "laptop")

    private func error(_ body: () async throws -> Void) async -> UbiquityError.Code? {
        do { try await body() } catch { return (error as? UbiquityError)?.code }
        return nil
    }

    @Test func approvedCodeGivesTheDeviceATokenOfItsOwn() async throws {
        try await RealCloud.run { socket, web, cloud in
            let first = try await cloud.createAccount("alice")
            let device = try CloudAdministrator(web), owner = try CloudAdministrator(socket)
            let code = try await device.requestSignIn(Self.laptop)
            #expect(try await device.collectSignIn(code.secret) == nil)
            let listed = try await owner.pendingSignIns(of: nil)
            #expect(listed.map(\.code) == [code.code])
            #expect(listed.first?.device == "laptop" && listed.first?.address == "127.0.0.1")
            // A user may write the code in small letters and without its dash.
            let typed = code.code.lowercased().replacing("-", with: " ")
            #expect(try await owner.approveSignIn(SignInDecision(code: typed), of: nil).account == "alice")
            let token = try #require(try await device.collectSignIn(code.secret))
            // An answer that was lost is given again.
            #expect(try await device.collectSignIn(code.secret) == token)
            #expect(token.name == "laptop")
            let signedIn = try CloudAdministrator(web, token: token.token)
            #expect(try await signedIn.rights() == OwnRights(account: "alice", containers: nil, readOnly: false))
            #expect(try await owner.pendingSignIns(of: nil).isEmpty)
            // The next device of this name is confirmed by a device, and gets fewer rights.
            let next = try await device.requestSignIn(Self.laptop)
            let other = try CloudAdministrator(web, token: first)
            let decision = SignInDecision(code: next.code, containers: ["notes"], readOnly: true)
            _ = try await other.approveSignIn(decision, of: nil)
            let second = try #require(try await device.collectSignIn(next.secret))
            #expect(second.name == "laptop 2")
            let entry = try await other.tokens(of: nil).first { $0.name == "laptop 2" }
            #expect(entry?.containers == ["notes"] && entry?.readOnly == true)
            for administrator in [device, owner, signedIn, other] { await administrator.shutdown() }
        }
    }

    @Test func refusedOrExpiredCodeGivesNothing() async throws {
        let time = ShiftedTime()
        try await RealCloud.run(at: time) { socket, web, cloud in
            _ = try await cloud.createAccount("alice")
            let device = try CloudAdministrator(web), owner = try CloudAdministrator(socket)
            let refused = try await device.requestSignIn(Self.laptop)
            _ = try await owner.refuseSignIn(refused.code, of: "alice")
            #expect(await error { _ = try await device.collectSignIn(refused.secret) } == .accessDenied)
            let late = try await device.requestSignIn(Self.laptop)
            time.shift.withLock { $0 += CloudLimits.signInCodeAge + 1 }
            #expect(await error { _ = try await device.collectSignIn(late.secret) } == .notFound)
            #expect(
                await error { _ = try await owner.approveSignIn(SignInDecision(code: late.code), of: nil) } == .notFound)
            // An approved code that nobody collects leaves no token.
            let unused = try await device.requestSignIn(Self.laptop)
            _ = try await owner.approveSignIn(SignInDecision(code: unused.code), of: nil)
            time.shift.withLock { $0 += CloudLimits.signInCodeAge + 1 }
            #expect(await error { _ = try await device.collectSignIn(unused.secret) } == .notFound)
            #expect(try await owner.tokens(of: "alice").count == 1)
            for administrator in [device, owner] { await administrator.shutdown() }
        }
    }

    @Test func codesAndAttemptsAreLimited() async throws {
        let time = ShiftedTime()
        try await RealCloud.run(at: time) { socket, web, cloud in
            let token = try await cloud.createAccount("alice"), bob = try await cloud.createAccount("bob")
            let device = try CloudAdministrator(web), owner = try CloudAdministrator(socket)
            let codes = cloud.signInCodes
            let code = try codes.request(Self.laptop, from: "192.0.2.1")
            for _ in 1..<CloudLimits.pendingSignInsOfANetwork { _ = try codes.request(Self.laptop, from: "192.0.2.1") }
            #expect(throws: UbiquityError.self) { try codes.request(Self.laptop, from: "192.0.2.1") }
            // The answer for an unknown account is the same, and another address has codes of its own.
            _ = try codes.request(SignInRequest(account: "nobody", device: "x"), from: "192.0.2.2")
            // Another account's user cannot approve the code, and has ten attempts.
            let guesser = try CloudAdministrator(web, token: bob)
            for _ in 0..<CloudLimits.wrongSignInCodes {
                #expect(
                    await error { _ = try await guesser.approveSignIn(SignInDecision(code: code.code), of: nil) }
                        == .notFound)
            }
            let limited = await error { _ = try await guesser.approveSignIn(SignInDecision(code: code.code), of: nil) }
            #expect(limited == .tooManyRequests)
            let alice = try CloudAdministrator(web, token: token)
            #expect(try await alice.approveSignIn(SignInDecision(code: code.code), of: nil).device == "laptop")
            for administrator in [device, owner, guesser, alice] { await administrator.shutdown() }
        }
    }
}
