internal import UbiquityCore

/// Privileges that a file gives to programs that execute it: set-user-id, set-group-id and file capabilities.
///
/// Another device must not set them here: root may own what arrives, and a mount with `allow_other,suid` would let
/// everybody run it as root.
package enum Privileges {
    /// Set-user-id and set-group-id.
    package static let bits: UInt32 = 0o6000
    package static let capability = Array("security.capability".utf8)

    /// Returns the mode that an item shows for a record from the cloud.
    ///
    /// - Parameter shown: The item's present mode. Its privilege bits stay as long as the record has them too.
    package static func arriving(_ mode: UInt32, over shown: UInt32 = 0) -> UInt32 {
        mode & ~(bits & ~shown)
    }
}
