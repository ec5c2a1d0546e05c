import UbiquityCore

/// Why a coordinated access was not had.
public enum FileCoordinationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// It was taken back.
    case userCancelled
    /// Others did not finish in time.
    case timedOut(reason: String)
    /// Two operations would have waited for each other, or a presenter could not do its part (its words are here).
    case busy(reason: String)
    case noSuchFile(reason: String)
    /// The mount has ended, or does not answer.
    case unavailable(reason: String)
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
