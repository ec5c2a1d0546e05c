internal import HummingbirdCore
internal import Logging
internal import NIOCore
import NIOSSL
internal import UbiquityCore
internal import UbiquitySystem

/// The certificate of an address. A running server reads it again when its files were replaced.
final class ServerCertificate: Sendable {
    private let certificate: String
    private let key: String
    private let current: Lock<NIOSSLContext>

    /// Reads the files (PEM). Throws `.invalid`.
    init(certificate: String, key: String) throws {
        self.certificate = certificate
        self.key = key
        current = Lock(try Self.read(certificate, key))
    }

    var context: NIOSSLContext { current.withLock { $0 } }

    /// Reads the files again, for the connections from now on. Throws `.invalid`, and keeps the present ones.
    func reload() throws {
        let new = try Self.read(certificate, key)
        current.withLock { $0 = new }
    }

    private static func read(_ certificate: String, _ key: String) throws -> NIOSSLContext {
        do { return try NIOSSLContext(configuration: configuration(certificate, key)) } catch {
            throw unreadable(certificate, key, error)
        }
    }

    static func configuration(_ certificate: String, _ key: String) throws -> TLSConfiguration {
        do {
            let chain = try NIOSSLCertificate.fromPEMFile(certificate)
            let secret = try NIOSSLPrivateKey(file: key, format: .pem)
            var tls = TLSConfiguration.makeServerConfiguration(
                certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(secret))
            tls.minimumTLSVersion = .tlsv12
            return tls
        } catch {
            throw unreadable(certificate, key, error)
        }
    }

    private static func unreadable(_ certificate: String, _ key: String, _ error: any Error) -> UbiquityError {
        if let error = error as? UbiquityError { return error }
        return UbiquityError(
            .invalid, "cannot read the certificate or its key: \(error)", at: "\(certificate), \(key)")
    }
}

/// A connection with TLS. It uses the certificate of the moment at which it begins.
struct SecuredChannel<Base: ServerChildChannel>: ServerChildChannel {
    typealias Value = Base.Value

    let base: Base
    let certificate: ServerCertificate

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: certificate.context))
        }.flatMap {
            base.setup(channel: channel, logger: logger)
        }
    }

    func handle(value: Value, logger: Logger) async { await base.handle(value: value, logger: logger) }
}
