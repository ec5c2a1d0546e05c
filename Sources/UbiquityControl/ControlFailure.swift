import UbiquityCore

/// A `UbiquityError` on the local socket: the body of an answer that is not a success.
package struct ControlFailure: Codable, Hashable, Sendable {
    /// `UbiquityError.Code`'s name, e.g. "notUploadedYet".
    package var code: String
    package var message: String
    package var place: String
    package var remedy: String

    package init(_ error: UbiquityError) {
        code = error.code.rawValue
        message = error.message
        place = error.place
        remedy = error.remedy
    }

    /// The error again. A code of a newer daemon that this program does not know becomes `.io`.
    package var error: UbiquityError {
        UbiquityError(UbiquityError.Code(rawValue: code) ?? .io, message, at: place, remedy: remedy)
    }

    /// One line for people.
    package var text: String { error.description }
}
