package import UbiquityCore

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

extension ItemRow {
    /// Removes the privileges when content arrives from elsewhere, because they were granted to the old content. This
    /// does not mark the row dirty, so the cloud and other devices keep their bits.
    package mutating func dropPrivileges() {
        mode &= ~Privileges.bits
        localXattrs.removeAll { $0.name == Privileges.capability }
    }

    /// Returns whether the mode equals the record's, apart from privilege bits that this device did not accept.
    package func showsMode(of item: RemoteItem) -> Bool { mode == Privileges.arriving(item.mode, over: mode) }
}
