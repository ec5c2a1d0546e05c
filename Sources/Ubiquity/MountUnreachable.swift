/// No container is mounted there, or its daemon is dead: nobody could be asked. (A daemon that says no is a
/// `UbiquityError`.)
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
