internal import FoundationEssentials
package import UbiquityCore

/// A failure on the wire: the body of every answer that is not a success.
package struct WireFailure: Hashable, Sendable {
    package var error: UbiquityError
    /// The chunks that a refused commit lacks. Only with code `.missingChunks`.
    package var missingChunks: [ChunkID]
    /// The number of the device's last commit. Only with code `.outdatedCommit`.
    package var lastCommit: Int64?
    /// Only with code `.packageConflict`.
    package var packageConflict: PackageConflict?

    package init(
        error: UbiquityError, missingChunks: [ChunkID] = [], lastCommit: Int64? = nil,
        packageConflict: PackageConflict? = nil
    ) {
        self.error = error
        self.missingChunks = missingChunks
        self.lastCommit = lastCommit
        self.packageConflict = packageConflict
    }

    /// Converts any error. For a foreign error only its kind is sent, because its text may be private.
    package init(_ thrown: any Error) {
        switch thrown {
        case let missing as MissingChunks:
            self.init(
                error: UbiquityError(.missingChunks, "the cloud lacks \(missing.ids.count) chunks of this commit"),
                missingChunks: missing.ids)
        case let outdated as OutdatedCommit:
            self.init(
                error: UbiquityError(.outdatedCommit, "the cloud has taken a later commit of this device"),
                lastCommit: outdated.last)
        case let conflict as PackageConflict:
            self.init(
                error: UbiquityError(.packageConflict, "another device has changed the package"),
                packageConflict: conflict)
        case let error as UbiquityError: self.init(error: error)
        case is CancellationError: self.init(error: UbiquityError(.cancelled, "the request was cancelled"))
        default: self.init(error: UbiquityError(.io, "the cloud failed: \(type(of: thrown))"))
        }
    }

    /// The error for a caller of `CloudService`: `MissingChunks`, `OutdatedCommit`, `PackageConflict` or
    /// `UbiquityError`.
    package var thrown: any Error {
        switch error.code {
        case .missingChunks: MissingChunks(ids: missingChunks)
        case .outdatedCommit: lastCommit.map(OutdatedCommit.init) ?? error
        case .packageConflict: packageConflict ?? error
        default: error
        }
    }

    package var status: Int { error.code.httpStatus }
}

extension WireFailure: MessageConvertible {
    static var shape: MessageShape { .failure }

    init(message: PBFailure) throws(UbiquityError) {
        for text in [message.message, message.place, message.remedy] {
            guard text.utf8.count <= MessageLimits.maximumFailureTextLength else {
                throw .malformed("a failure's text has \(text.utf8.count) bytes")
            }
        }
        guard let code = UbiquityError.Code(rawValue: message.code) else {
            throw .malformed("a failure of an unknown kind (\(message.code.prefix(64))): \(message.message)")
        }
        self.init(
            error: UbiquityError(code, message.message, at: message.place, remedy: message.remedy),
            missingChunks: try decodeChunkIDs(message.missingChunks),
            lastCommit: message.hasLastCommit ? message.lastCommit : nil,
            packageConflict: message.hasPackageConflict ? try PackageConflict(message: message.packageConflict) : nil)
    }

    func message() -> PBFailure {
        var result = PBFailure()
        result.code = error.code.rawValue
        result.message = Self.shortened(error.message)
        result.place = Self.shortened(error.place)
        result.remedy = Self.shortened(error.remedy)
        result.missingChunks = missingChunks.map(\.data)
        if let lastCommit { result.lastCommit = lastCommit }
        if let packageConflict { result.packageConflict = packageConflict.message }
        return result
    }

    private static func shortened(_ text: String) -> String {
        guard text.utf8.count > MessageLimits.maximumFailureTextLength else { return text }
        // A scalar has at most 4 bytes in UTF-8. Count scalars, since one character can have any number of them.
        return String(String.UnicodeScalarView(text.unicodeScalars.prefix(MessageLimits.maximumFailureTextLength / 4)))
    }
}
