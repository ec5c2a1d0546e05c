package import UbiquityCore

/// Rights that a file gives to the programs that execute it: set-user-id, set-group-id and file capabilities.
///
/// Another device must not set them here: root may own what arrives, and a mount with `allow_other,suid` would let
/// everybody run it as root.
package enum Privileges {
    /// Set-user-id and set-group-id.
    package static let bits: UInt32 = 0o6000
    package static let capability = Array("security.capability".utf8)

    /// The mode that an item shows for a record from the cloud.
    /// - Parameter shown: the mode that the item has; its bits stay as long as the record has them too.
    package static func arriving(_ mode: UInt32, over shown: UInt32 = 0) -> UInt32 {
        mode & ~(bits & ~shown)
    }
}

extension ItemRow {
    /// For a content from elsewhere: the rights were given to the content before. Nobody marks that as a change made
    /// here, so the cloud and the other devices keep their bits.
    package mutating func dropPrivileges() {
        mode &= ~Privileges.bits
        localXattrs.removeAll { $0.name == Privileges.capability }
    }

    /// Whether the mode is the record's, but for set-user-id and set-group-id bits that this device did not accept.
    package func showsMode(of item: RemoteItem) -> Bool { mode == Privileges.arriving(item.mode, over: mode) }
}
