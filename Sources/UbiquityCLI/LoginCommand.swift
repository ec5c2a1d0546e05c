import ArgumentParser
import UbiquityCore
import UbiquityDaemon
import UbiquitySystem
import UbiquityWire

struct LoginCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "login",
        abstract: "Sign this device in to an account at a cloud.",
        discussion: """
            It reads the token that 'ubiquity account create' printed, from a file or from standard input. With --code \
            it needs no token: it prints a code and waits until a user of the account confirms the code, on the \
            cloud's web page or with 'ubiquity account approve'. A code is valid for ten minutes. 'ubiquity login \
            local' signs in to the embedded cloud of this machine, which needs no account and no token. Mounts of this \
            device show the documents of the account at once.
            """)

    @OptionGroup var state: StateOptions

    @Argument(help: "The cloud's address, e.g. https://nas.example:7070; or 'local'.")
    var url: String

    @Option(help: .init("The account's name.", valueName: "name"))
    var account: String?

    @Option(help: .init("A file with the account's token.", valueName: "f"))
    var tokenFile: String?

    @Flag(help: "Print a code that is confirmed elsewhere, instead of reading a token.")
    var code = false

    @Option(
        help: .init(
            "The only certificates (PEM) to trust, for a cloud with a certificate of its own.", valueName: "f"))
    var certificateAuthority: String?

    @Flag(help: "Allow http:// to another machine. Anyone on the network can read the token and all contents.")
    var insecure = false

    func validate() throws {
        guard url != Self.local else { return }
        guard let account else { throw ValidationError("name the account: --account NAME") }
        guard ContainerID(account) != nil else { throw ValidationError("--account: \(ContainerID.rules)") }
        guard !code || tokenFile == nil else { throw ValidationError("--code and --token-file exclude each other") }
        // A malformed address fails in `run`.
        guard !insecure, (try? SignIn.isExposed(url: url)) == true else { return }
        throw ValidationError(
            "\(Output.shown(url)) has no TLS: anyone on the network could read the token and all contents. Use "
                + "https://, or --insecure in a trusted network")
    }

    func run() async throws {
        let stateFolder = try state.resolved()
        guard url != Self.local else { return try await signInLocally(stateFolder) }
        let certificates = try certificateAuthority.map(certificates)
        let given = SignIn(
            url: url, account: account ?? "",
            token: code ? try await confirmedToken(stateFolder, certificates) : try token(), certificates: certificates)
        let signIn = try await Progress.showing("asking the cloud …") { _ in
            do {
                var signIn = given
                try await signIn.check()
                return signIn
            } catch let error as UbiquityError where error.isAboutCloud {
                throw CloudUnreachable(cause: error)
            }
        }
        try signIn.save(deviceFolder: stateFolder)
        Output.message("signed in: \(try AccountNotice(deviceFolder: stateFolder).text)")
        try await state.showAccount()
    }

    /// The word in the place of an address for the cloud of this machine.
    private static let local = "local"

    private func signInLocally(_ stateFolder: String) async throws {
        guard try SignIn.remove(deviceFolder: stateFolder) else {
            return Output.message("this device uses the cloud on this machine already")
        }
        Output.message("signed in: \(try AccountNotice(deviceFolder: stateFolder).text)")
        try await state.showAccount()
    }

    /// Shows a code and waits for its confirmation.
    private func confirmedToken(_ stateFolder: String, _ certificates: String?) async throws -> String {
        let signIn = try SignInByCode(
            url: url, account: account ?? "", certificates: certificates, deviceFolder: stateFolder)
        do {
            return try await signIn.token { code in
                Output.line(code.code)
                Output.message(
                    "confirm this code within \(Int(code.expiresIn / 60)) minutes, on \(url) in a browser, or on the "
                        + "cloud's machine with 'ubiquity account approve \(code.code)'")
            }
        } catch let error as UbiquityError where error.isAboutCloud && error.code != .timedOut {
            throw CloudUnreachable(cause: error)
        }
    }

    /// The certificates are stored with the sign-in: the file is not needed afterwards.
    private func certificates(_ path: String) throws(UbiquityError) -> String {
        guard let bytes = try SmallFile.read(path, limit: SignIn.maximumCertificates) else {
            throw UbiquityError(.notFound, "no such file", at: path)
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw UbiquityError(.invalid, "there are no certificates in PEM", at: path)
        }
        return text
    }

    /// The first line of the file or of standard input.
    private func token() throws(UbiquityError) -> String {
        let limit = 4096
        let bytes: [UInt8]?
        if let tokenFile {
            bytes = try SmallFile.read(tokenFile, limit: limit)
        } else {
            if ProcessHost.isTerminal(0) { ProcessHost.write("Token: ", to: 2) }
            bytes = try describing("read the token") { () throws(Errno) in try StandardStreams.readLine(limit: limit) }
        }
        guard let bytes else { throw UbiquityError(.notFound, "no such file", at: tokenFile ?? "") }
        let line = bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        guard let token = String(validating: line, as: UTF8.self), !token.isEmpty else {
            throw UbiquityError(.invalid, "there is no token", at: tokenFile ?? "standard input")
        }
        return token
    }
}
