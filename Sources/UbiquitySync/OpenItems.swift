package import UbiquityCore
package import UbiquityIndex

/// The users of items on this device: programs that have files open, and clients that claim or show them.
package protocol OpenItems: Sendable {
    /// Runs `body` while nobody can open the item. Nil if a program has it open, or if that is unknown.
    func whileClosed<R>(_ key: ItemKey, _ body: () throws -> R) throws -> R?
    /// Records in the index when files were last used.
    func noteUses()
    /// Whether a client shows the item. Such an item is evicted only on request.
    func isShown(_ key: ItemKey) -> Bool
    /// Whether a client may show or have claimed the item, so that it must be asked.
    func mayBeUsed(_ key: ItemKey) -> Bool
    /// Whether a client has claimed the item for writing. Its content is unfinished and not uploaded yet.
    func isBeingWritten(_ row: ItemRow) -> Bool
    /// The names of the programs and clients that write to the item or to its package, for a person.
    func writers(of row: ItemRow) -> [String]
    /// Whether a program has the content open in a file without a name yet.
    func isUnnamed(_ content: ContentID) -> Bool
    /// Asks clients that show or have claimed the items to save and release them, and waits for that. Call it before
    /// applying remote changes. For a content, it waits until the claim is granted, one content at a time. Other
    /// changes are applied even if the clients do not answer soon.
    /// - Returns: a closure to call when the change is applied, or nil if no client was concerned.
    func prepare(for changes: [ComingChange]) async throws -> (@Sendable () -> Void)?
}

/// A remote change that is about to be applied to an item.
package enum ComingChange: Sendable, Hashable {
    /// The item's content is replaced.
    case content(ItemKey)
    case deletion(ItemID)
    /// The item moves to that place.
    case place(ItemID, Place)
}

extension OpenItems {
    package func noteUses() {}
    package func isShown(_ key: ItemKey) -> Bool { false }
    package func mayBeUsed(_ key: ItemKey) -> Bool { false }
    package func isBeingWritten(_ row: ItemRow) -> Bool { false }
    package func writers(of row: ItemRow) -> [String] { [] }
    package func isUnnamed(_ content: ContentID) -> Bool { false }
    package func prepare(for changes: [ComingChange]) async throws -> (@Sendable () -> Void)? { nil }
}
