import ArgumentParser
import UbiquityCore
import UbiquityDaemon

struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Runs a cloud for devices.",
        discussion: "It prints 'listening on …' when it is ready and ends with SIGTERM or SIGINT.")

    @Option(help: .init("Where its data is. [UBIQUITY_CLOUD_DATA with --embedded]", valueName: "dir"))
    var data: String?

    @Option(help: .init("Address to listen on (default: 127.0.0.1:7070).", valueName: "host:port"))
    var listen: String?

    @Option(help: .init("Listen on a Unix socket instead.", valueName: "path"))
    var socket: String?

    @Flag(help: "For the devices of this user only: a Unix socket in the data folder, and an end when unused.")
    var embedded = false

    @Option(help: .init("Certificate chain in PEM, for TLS.", valueName: "file"))
    var tlsCertificate: String?

    @Option(help: .init("The certificate's key in PEM.", valueName: "file"))
    var tlsKey: String?

    func validate() throws {
        guard (tlsCertificate == nil) == (tlsKey == nil) else {
            throw ValidationError("--tls-certificate and --tls-key go together")
        }
        let ways = [listen != nil, socket != nil, embedded].count { $0 }
        guard ways <= 1 else { throw ValidationError("--listen, --socket and --embedded exclude each other") }
    }

    func run() async throws {
        let data = try CloudFolder.path(option: data)
        if embedded { return try await CloudHost.runEmbedded(data: data) { Output.line("listening on \($0)") } }
        let address: CloudHost.Address = try socket.map { .socket(try CloudHost.absolute($0)) } ?? .parse(listen)
        let settings = CloudHost.Settings(
            data: data, address: address, tls: tlsCertificate.flatMap { file in tlsKey.map { (file, $0) } })
        try await CloudHost.run(settings) { Output.line("listening on \($0)") }
    }
}
