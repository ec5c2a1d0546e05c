import UbiquityCore

/// The reason why a coordinated access failed.
///
/// - Source: this library; `NSFileCoordinator` gives a `CocoaError` or a `POSIXError`.
public enum FileCoordinationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The caller cancelled the request.
    case userCancelled
    /// Other programs did not finish in time.
    case timedOut(reason: String)
    /// Two operations would have waited for each other, or a presenter refused; `reason` holds its words.
    case busy(reason: String)
    /// The item does not exist.
    case noSuchFile(reason: String)
    /// The mount has ended, or its daemon does not answer.
    case unavailable(reason: String)
    /// Any other failure; `reason` names it.
    case failed(reason: String)

    init(_ error: UbiquityError) {
        switch error.code {
        case .cancelled, .interrupted: self = .userCancelled
        case .timedOut: self = .timedOut(reason: error.description)
        case .busy: self = .busy(reason: error.description)
        case .notFound: self = .noSuchFile(reason: error.description)
        default: self = .failed(reason: error.description)
        }
    }

    public var description: String {
        switch self {
        case .userCancelled: "cancelled"
        case .timedOut(let reason), .busy(let reason), .noSuchFile(let reason), .unavailable(let reason),
            .failed(let reason): reason
        }
    }
}
