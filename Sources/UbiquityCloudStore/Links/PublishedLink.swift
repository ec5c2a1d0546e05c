package import UbiquityCore

/// A link as its public page serves it: a name, a size and a time, and nothing about the account.
package struct PublishedLink: Hashable, Sendable {
    package var number: Int64
    /// The item's name when it was published.
    package var name: ItemName
    package var isFolder: Bool
    /// Bytes of all files, and their number.
    package var size: Int64
    package var files: Int
    /// When the item was last saved.
    package var savedAt: Timestamp
    package var expires: Timestamp
    package var hasPassword: Bool
    /// A mark that changes with the content; it reveals nothing.
    package var mark: String
    let account: Int64
    let container: ContainerID
}

/// A file, folder or symbolic link of a published item.
package struct LinkedFile: Hashable, Sendable {
    /// The names from the published item down, which is the first.
    package var path: [ItemName]
    package var kind: ItemKind
    package var modifiedAt: Timestamp
    /// Size in bytes.
    package var size: Int64
    package var linkTarget: [UInt8]
    package var manifest: Manifest
}

/// Thrown for a link that was valid: it expired, was revoked, or its item was deleted. It is no guess.
package struct EndedLink: Error, Hashable, Sendable {
    package var number: Int64

    package var error: UbiquityError {
        UbiquityError(.notFound, "this link has ended", remedy: "ask for a new link")
    }
}
