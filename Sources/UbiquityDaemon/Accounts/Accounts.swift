import UbiquityCloudClient
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// Manages accounts: those of the cloud on this machine, through the socket in its data folder, or the account that a
/// device is signed in to.
package struct Accounts: Sendable {
    private enum Place {
        case data(String)
        case signedIn(SignIn)
    }

    private let place: Place

    /// - Parameter data: the cloud's data folder, absolute.
    package init(data: String) { place = .data(data) }

    fileprivate init(signIn: SignIn) { place = .signedIn(signIn) }

    /// The account of a device. Without a sign-in it is that of the embedded cloud.
    package init(deviceFolder: String) throws(UbiquityError) {
        if let signIn = try SignIn.load(deviceFolder: deviceFolder) {
            place = .signedIn(signIn)
        } else {
            place = .data(try CloudFolder.path(option: nil))
        }
    }

    /// The account that a device is signed in to; nil without a sign-in.
    package static func signedIn(deviceFolder: String) throws(UbiquityError) -> Accounts? {
        try SignIn.load(deviceFolder: deviceFolder).map { Accounts(signIn: $0) }
    }

    /// The same, after the embedded cloud was started if it does not run.
    package func startingCloud() async throws -> Accounts {
        guard case .data(let data) = place else { return self }
        let cloud = EmbeddedCloud(
            data: data, pool: BlockingPool(name: "cloud", threads: 1), timekeeper: SystemTimekeeper(),
            logger: LogFile(path: nil).logger())
        _ = try await cloud.ensureRunning()
        return self
    }

    /// Whether a cloud listens at the socket in the data folder.
    package var isServing: Bool {
        guard case .data(let data) = place else { return true }
        return LocalSocket.isListening(CloudFolder.socket(data))
    }

    /// The account and the container of a mount, by its source (`<device>/<account>/<container>`). The mount shows the
    /// account of its device, whichever account it began with.
    /// - Throws: `.signedOut` if nobody is signed in.
    package static func ofMount(
        stateFolder: String
    ) throws(UbiquityError) -> (accounts: Accounts, container: ContainerID) {
        let account = Path.parent(of: stateFolder), device = Path.parent(of: account)
        guard let container = ContainerID(String(stateFolder.dropFirst(account.count + 1))) else {
            throw UbiquityError(.invalid, "not the state folder of a container", at: stateFolder)
        }
        return (try Accounts(deviceFolder: device), container)
    }

    /// The state folder of the device of a mount.
    package static func deviceFolder(ofMount stateFolder: String) -> String {
        Path.parent(of: Path.parent(of: stateFolder))
    }

    /// Asks the cloud. Throws `.offline` if it is not reachable.
    package func ask<Answer: Sendable>(
        _ question: (CloudAdministrator) async throws -> Answer
    ) async throws -> Answer {
        let administrator = try administrator()
        do {
            let answer = try await question(administrator)
            await administrator.shutdown()
            return answer
        } catch {
            await administrator.shutdown()
            throw error
        }
    }

    /// The address of the cloud's server; nil if the cloud is reached over its Unix socket.
    package var webAddress: String? {
        guard case .signedIn(let signIn) = place, signIn.url.lowercased().hasPrefix("http") else { return nil }
        var url = signIn.url
        while url.last == "/" { url.removeLast() }
        return url
    }

    private func administrator() throws -> CloudAdministrator {
        switch place {
        case .signedIn(let signIn):
            return try CloudAdministrator(
                CloudAddress(signIn.url, certificates: signIn.certificates), token: signIn.token)
        case .data(let data):
            guard LocalSocket.isListening(CloudFolder.socket(data)) else {
                throw UbiquityError(
                    .offline, "no cloud serves this data", at: data, remedy: "start one: ubiquity serve --data \(data)")
            }
            try TrustedPath.require(data, as: "the data folder")
            return try CloudAdministrator(.unixSocket(path: CloudFolder.socket(data)))
        }
    }
}

extension SignIn {
    /// Whether token and contents would travel to another machine without TLS. Throws `.invalid`.
    package static func isExposed(url: String) throws(UbiquityError) -> Bool { try CloudAddress(url).isExposed }

    /// Verifies the token at the cloud, and stores the cloud's id. Throws `.signedOut`, `.offline`, `.timedOut`,
    /// `.invalid`.
    package mutating func check() async throws {
        let answer: (account: String, incarnation: UInt64?)
        do {
            let description = try await description(of: MountSettings.defaultContainer)
            answer = (description.account, description.incarnation)
        } catch let error as UbiquityError where error.code == .accessDenied || error.code == .notFound {
            // A token for some containers, or for reading, cannot create the default one.
            let rights = try await Accounts(signIn: self).ask { try await $0.rights() }
            var incarnation: UInt64?
            if !rights.readOnly, let first = rights.containers?.first {
                incarnation = try await description(of: first).incarnation
            }
            answer = (rights.account, incarnation)
        }
        guard answer.account == account else {
            throw UbiquityError(
                .notPermitted, "the token belongs to another account: \(answer.account)", at: url,
                remedy: "give that account's name, or a token of this account")
        }
        cloud = answer.incarnation.map { String($0, radix: 16) }
    }

    private func description(of name: String) async throws -> ContainerDescription {
        guard let container = ContainerID(name) else {
            throw UbiquityError(.invalidName, "not a container's name: \(name)", remedy: ContainerID.rules)
        }
        var generator = SourcedGenerator(SystemRandom())
        let client = try CloudClient(
            CloudAddress(url, certificates: certificates), container: container, token: token,
            device: DeviceID(using: &generator), deviceName: ProcessHost.hostName)
        do {
            let description = try await client.open()
            await client.shutdown()
            return description
        } catch {
            await client.shutdown()
            throw error
        }
    }
}
