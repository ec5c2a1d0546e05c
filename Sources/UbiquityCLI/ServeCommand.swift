import ArgumentParser
import UbiquityControl
import UbiquityCore
import UbiquityDaemon

struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Run a cloud for devices.",
        discussion: "It prints 'listening on …' when it is ready. SIGTERM or SIGINT ends it.")

    @Option(help: .init("The data folder. [UBIQUITY_CLOUD_DATA]", valueName: "dir"))
    var data: String?

    @Option(help: .init("Address to listen on (default: 127.0.0.1:7070).", valueName: "host:port"))
    var listen: String?

    @Option(help: .init("Listen on a Unix socket instead.", valueName: "path"))
    var socket: String?

    @Flag(help: "Serve this user's devices on a Unix socket in the data folder, and end when unused.")
    var embedded = false

    @Option(
        help: .init(
            "Days to keep deleted items, earlier versions and resolved conflicts (default: 30).",
            valueName: "days"))
    var keep: Double?

    @Option(help: .init("The most earlier versions of one file (default: 100).", valueName: "n"))
    var keepVersions: Int?

    @Option(
        help: .init(
            "The quota of each account, e.g. 50G (default: unchanged; 5 GB for a new account).", valueName: "size"),
        transform: { try ByteSize.parse($0) })
    var quota: Int64?

    @Option(help: .init("Certificate chain in PEM, for TLS.", valueName: "file"))
    var tlsCertificate: String?

    @Option(help: .init("The certificate's key in PEM.", valueName: "file"))
    var tlsKey: String?

    @Flag(help: "Listen beyond this machine without TLS. Anyone on the network can read tokens and contents.")
    var insecure = false

    @Option(
        help: .init(
            "The most connections of one address; raise it for a proxy on another machine (default: 512).",
            valueName: "n"))
    var connectionsPerAddress: Int?

    func validate() throws {
        guard (tlsCertificate == nil) == (tlsKey == nil) else {
            throw ValidationError("--tls-certificate and --tls-key go together")
        }
        guard tlsCertificate == nil || socket == nil && !embedded else {
            throw ValidationError("TLS is for --listen, not for a Unix socket")
        }
        guard keep.map({ (0...UserConfiguration.longestKeep).contains($0) }) ?? true else {
            throw ValidationError("--keep must be a number of days from 0 to \(Int(UserConfiguration.longestKeep))")
        }
        guard keepVersions ?? 0 >= 0 else { throw ValidationError("--keep-versions must be 0 or more") }
        guard quota ?? 1 > 0 else { throw ValidationError("--quota must be 1 byte or more: nothing fits in 0") }
        let ways = [listen != nil, socket != nil, embedded].count { $0 }
        guard ways <= 1 else { throw ValidationError("--listen, --socket and --embedded exclude each other") }
        guard connectionsPerAddress ?? 1 > 0 else {
            throw ValidationError("--connections-per-address must be 1 or more")
        }
        try checkAddress()
    }

    private func checkAddress() throws {
        let isExposed: Bool
        do { isExposed = try listen.map(CloudProcess.isExposed(address:)) ?? false } catch let error as UbiquityError {
            throw ValidationError("--listen: \(error)")
        }
        guard !isExposed || tlsCertificate != nil || insecure else {
            throw ValidationError(
                "--listen beyond this machine without TLS: anyone on the network could read tokens and contents. Give "
                    + "--tls-certificate and --tls-key, or --insecure in a trusted network")
        }
    }

    func run() async throws {
        try await CloudProcess.run(
            data: CloudFolder.path(option: data), place: place(), keepingDays: keep, versions: keepVersions,
            quotaBytes: quota, connectionsPerAddress: connectionsPerAddress
        ) { address in
            Output.line("listening on \(address)")
        }
    }

    private func place() throws -> CloudProcess.Place {
        if embedded { return .embedded }
        if let socket { return .socket(try AbsolutePath.of(socket)) }
        let address = listen ?? CloudProcess.defaultAddress
        guard let tlsCertificate, let tlsKey else { return .address(address) }
        return .tls(
            address, certificate: try AbsolutePath.of(tlsCertificate), key: try AbsolutePath.of(tlsKey))
    }
}
