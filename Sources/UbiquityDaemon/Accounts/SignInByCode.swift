import UbiquityCloudClient
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// Gets a token for this device by a code that a user of the account confirms elsewhere.
package struct SignInByCode: Sendable {
    private let address: CloudAddress
    private let request: SignInRequest
    private let timekeeper: any Timekeeper

    /// - Parameter deviceFolder: names the device.
    package init(
        url: String, account: String, certificates: String?, deviceFolder: String,
        timekeeper: any Timekeeper = SystemTimekeeper()
    ) throws(UbiquityError) {
        address = try CloudAddress(url, certificates: certificates)
        request = SignInRequest(account: account, device: try DeviceIdentity.name(deviceFolder: deviceFolder))
        self.timekeeper = timekeeper
    }

    /// Asks for a code, shows it, and waits until it was confirmed.
    /// - Parameter show: called once.
    /// - Returns: the token.
    /// - Throws: `.accessDenied` if the code was refused, `.timedOut` if it expired, `.tooManyRequests`, `.offline`.
    package func token(_ show: (SignInCode) -> Void) async throws -> String {
        let administrator = try CloudAdministrator(address)
        do {
            let token = try await token(administrator, show)
            await administrator.shutdown()
            return token
        } catch {
            await administrator.shutdown()
            throw error
        }
    }

    private func token(_ administrator: CloudAdministrator, _ show: (SignInCode) -> Void) async throws -> String {
        let code = try await administrator.requestSignIn(request)
        show(code)
        let end = timekeeper.uptime() + .seconds(code.expiresIn)
        while timekeeper.uptime() < end {
            try await timekeeper.sleep(for: .seconds(max(code.interval, Self.shortestInterval)))
            do {
                if let token = try await administrator.collectSignIn(code.secret) { return token.token }
            } catch let error as UbiquityError where [.offline, .timedOut].contains(error.code) {
                // The code may still be confirmed when the cloud is reachable again.
                continue
            } catch let error as UbiquityError where error.code == .notFound {
                break
            }
        }
        throw UbiquityError(
            .timedOut, "the code \(code.code) was not confirmed in time", at: address.description,
            remedy: "run 'ubiquity login' with --code again")
    }

    /// In seconds: a cloud that names none must not be asked without a pause.
    private static let shortestInterval = 0.2
}
