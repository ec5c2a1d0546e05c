public import FoundationEssentials

/// A way out of a document's failure.
///
/// - Source: `NSError.localizedRecoveryOptions`.
public enum DocumentRecoveryOption: Hashable, Sendable {
    /// The operation is tried again.
    case retry
    /// The document replaces the other program's change.
    case overwrite
    /// The document is written anew in its old place.
    case recreate
    /// The document is saved in another place, and goes on there.
    case saveCopy(URL)
    /// The document takes the other program's change; unsaved changes are lost.
    case revert
    /// The failure stays; the next save tries again.
    case cancel
}

/// Decides how a document recovers from a failure, for example by asking the user.
///
/// - Source: `NSErrorRecoveryAttempting`.
@MainActor
public protocol DocumentRecoveryAttempter: AnyObject {
    /// Chooses a way out of a failure.
    ///
    /// - Parameters:
    ///   - error: The failure.
    ///   - options: The ways that can help. `.saveCopy` is always possible for a failed save and is not listed.
    ///   - document: The document that failed.
    ///   - userInteractionPermitted: False while the document is being closed; do not ask the user then.
    /// - Returns: The chosen option.
    func recoveryOption(
        for error: any Error, options: [DocumentRecoveryOption], of document: Document, userInteractionPermitted: Bool
    ) async -> DocumentRecoveryOption
}

extension DocumentRecoveryOption {
    /// The ways out of a failure.
    static func options(for error: any Error) -> [DocumentRecoveryOption] {
        switch (error as? UbiquitousFileError)?.code {
        case .fileChangedByOther: [.overwrite, .revert, .cancel]
        case .fileNoSuchFile: [.recreate, .cancel]
        case .fileFormatTooNew, .featureUnsupported: [.cancel]
        default: [.retry, .cancel]
        }
    }
}
