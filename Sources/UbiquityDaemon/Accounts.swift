import UbiquityCloudClient
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// Manages the accounts of the cloud on this machine, through the socket in its data folder.
package struct Accounts: Sendable {
    private let data: String

    /// - Parameter data: the cloud's data folder, absolute.
    package init(data: String) { self.data = data }

    /// Creates an account. Throws `.alreadyExists`, `.invalidName`; `.offline` if no cloud serves the data.
    /// - Returns: its token, which is shown only this once.
    package func create(_ name: String) async throws -> String { try await asking { try await $0.createAccount(name) } }

    package func list() async throws -> [String] { try await asking { try await $0.accounts() } }

    /// Deletes an account. Throws `.notFound`.
    package func delete(_ name: String) async throws { try await asking { try await $0.deleteAccount(name) } }

    private func asking<Answer: Sendable>(
        _ question: (CloudAdministrator) async throws -> Answer
    ) async throws -> Answer {
        guard LocalSocket.isListening(CloudFolder.socket(data)) else {
            throw UbiquityError(
                .offline, "no cloud serves this data", at: data, remedy: "start one: ubiquity serve --data \(data)")
        }
        try TrustedPath.require(data, as: "the data folder")
        let administrator = try CloudAdministrator(.unixSocket(path: CloudFolder.socket(data)))
        do {
            let answer = try await question(administrator)
            await administrator.shutdown()
            return answer
        } catch {
            await administrator.shutdown()
            throw error
        }
    }
}

extension SignIn {
    /// Whether token and contents would travel to another machine without TLS. Throws `.invalid`.
    package static func isExposed(url: String) throws(UbiquityError) -> Bool { try CloudAddress(url).isExposed }

    /// Verifies the token at the cloud, and stores the cloud's id. Throws `.signedOut`, `.offline`, `.timedOut`,
    /// `.invalid`.
    package mutating func check() async throws {
        let address = try CloudAddress(url, certificates: certificates)
        guard let container = ContainerID(MountSettings.defaultContainer) else { return }
        var generator = SourcedGenerator(SystemRandom())
        let client = try CloudClient(
            address, container: container, token: token, device: DeviceID(using: &generator),
            deviceName: ProcessHost.hostName)
        let description: ContainerDescription
        do {
            description = try await client.open()
            await client.shutdown()
        } catch {
            await client.shutdown()
            throw error
        }
        guard description.account == account else {
            throw UbiquityError(
                .notPermitted, "the token belongs to another account: \(description.account)", at: url,
                remedy: "give that account's name, or a token of this account")
        }
        cloud = String(description.incarnation, radix: 16)
    }
}
