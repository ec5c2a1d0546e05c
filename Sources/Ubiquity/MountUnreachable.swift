/// No container is mounted at the place, or its daemon does not answer. An error that a daemon answers with is a
/// `UbiquityError`.
package struct MountUnreachable: Error, Hashable, Sendable, CustomStringConvertible {
    /// The path or the state folder.
    package var place: String
    package var reason: String

    package init(_ place: String, _ reason: String) {
        self.place = place
        self.reason = reason
    }

    package var description: String { "\(place): \(reason)" }
}
