/// The effect of a purge, in plain JSON.
package struct PurgedItems: Codable, Hashable, Sendable {
    /// Deleted items that are gone for ever. One that was restored meanwhile, or is in a live folder, stays.
    package var items: Int
    /// Versions of them, conflict versions included.
    package var versions: Int
    /// Seconds until a collection removes the contents that no other item has, at the latest.
    package var secondsToCollection: Double

    package init(items: Int, versions: Int, secondsToCollection: Double) {
        self.items = items
        self.versions = versions
        self.secondsToCollection = secondsToCollection
    }
}
