import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
internal import UbiquityCore
internal import UbiquitySystem

/// A request or an answer that was damaged in transit. It is sent again.
struct DamagedOnTheWay: Error {
    let reason: String
    var remedy = "something between this device and the cloud changes data: use https, or another network"

    func error(_ code: UbiquityError.Code, _ attempts: Int, at place: String) -> UbiquityError {
        UbiquityError(code, "\(reason), \(attempts) times", at: place, remedy: remedy)
    }
}

/// Converts errors below HTTP to `UbiquityError`.
enum ClientFailure {
    static func error(_ error: any Error, at address: CloudAddress) -> any Error {
        let place = address.description
        switch error {
        case is UbiquityError, is CancellationError, is DamagedOnTheWay: return error
        case let error as HTTPClientError: return self.error(error, place: place)
        case let error as NIOConnectionError:
            return UbiquityError(.offline, "cannot reach the cloud: \(cause(of: error))", at: place)
        case let error as IOError:
            return UbiquityError(.offline, "cannot reach the cloud: \(Errno(rawValue: error.errnoCode))", at: place)
        case is HTTPParserError:
            return UbiquityError(.offline, "the server at this address is not a cloud: \(error)", at: place)
        case let error as NIOSSLError: return UbiquityError(.offline, reason(of: error), at: place, remedy: remedy)
        case is BoringSSLError, is NIOSSLExtraError:
            return UbiquityError(.offline, "its certificate is not valid: \(error)", at: place, remedy: remedy)
        default:
            // Closed channels, name servers: every other error means that no answer arrived.
            return UbiquityError(.offline, "the connection to the cloud failed: \(error)", at: place)
        }
    }

    /// The remedy for a failed TLS handshake.
    private static let remedy =
        "sign in with --certificate-authority FILE if the cloud's certificate is self-made"

    private static func reason(of error: NIOSSLError) -> String {
        if case .handshakeFailed(let cause) = error, "\(cause)".contains("CERTIFICATE_VERIFY_FAILED") {
            return "this machine does not trust the cloud's certificate"
        }
        // The source line that BoringSSL reports helps nobody.
        if case .handshakeFailed(let cause) = error, "\(cause)".contains("WRONG_VERSION_NUMBER") {
            return "the server at this address does not use TLS; the address may begin with http:"
        }
        if case .handshakeFailed = error { return "the server at this address does not finish a TLS handshake" }
        return "cannot make a TLS connection to the cloud: \(error)"
    }

    private static func error(_ error: HTTPClientError, place: String) -> any Error {
        switch error {
        case .cancelled, .requestStreamCancelled: CancellationError()
        case .deadlineExceeded, .readTimeout, .writeTimeout:
            UbiquityError(.timedOut, "the cloud did not answer in time", at: place)
        case .connectTimeout, .tlsHandshakeTimeout, .getConnectionFromPoolTimeout:
            UbiquityError(.offline, "cannot reach the cloud in time", at: place)
        case .invalidURL, .emptyHost, .emptyScheme, .missingSocketPath:
            UbiquityError(.invalid, "not a cloud's address", at: place)
        default: UbiquityError(.offline, "the connection to the cloud broke: \(error.shortDescription)", at: place)
        }
    }

    private static func cause(of error: NIOConnectionError) -> String {
        if let failure = error.connectionErrors.first {
            if let error = failure.error as? IOError { return "\(Errno(rawValue: error.errnoCode))" }
            return "\(failure.error)"
        }
        if let failure = error.dnsAError ?? error.dnsAAAAError {
            return "no such host (\((failure as? SocketAddressError.UnknownHost)?.errorDescription ?? "\(failure)"))"
        }
        return "\(error)"
    }

    /// Whether the cloud is running but its socket's queue of connections is full.
    static func isFullQueue(_ error: any Error) -> Bool { (error as? IOError)?.errnoCode == EAGAIN }

    /// Whether the cloud closed a kept connection just as it was reused. The request may then be repeated once at once,
    /// because every call of `CloudService` may be repeated.
    static func isClosedConnection(_ error: any Error) -> Bool {
        switch error {
        case let error as HTTPClientError: error == .remoteConnectionClosed
        case let error as IOError: [EPIPE, ECONNRESET, ETIMEDOUT].contains(error.errnoCode)
        case let error as ChannelError: error == .ioOnClosedChannel || error == .alreadyClosed || error == .eof
        default: false
        }
    }
}
