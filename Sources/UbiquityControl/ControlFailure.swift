import UbiquityCore

/// A `UbiquityError` on the local socket: the body of an unsuccessful answer.
package struct ControlFailure: Codable, Hashable, Sendable {
    /// The name of the `UbiquityError.Code`, e.g. "notUploadedYet".
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

    /// The decoded error. An unknown code, from a newer daemon, becomes `.io`.
    package var error: UbiquityError {
        UbiquityError(UbiquityError.Code(rawValue: code) ?? .io, message, at: place, remedy: remedy)
    }

    /// One line for the user.
    package var text: String { error.description }
}
