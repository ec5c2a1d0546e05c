/// How a reader uses an item. The names follow NSFileCoordinator.
///
/// Claims of the arbiter, messages of the local socket, the library and the command line have these options in common.
package struct ReadingOptions: OptionSet, Hashable, Sendable {
    package let rawValue: Int
    package init(rawValue: Int) { self.rawValue = rawValue }
    /// Presenters are not asked to save first: the state on disk suffices.
    package static let withoutChanges = ReadingOptions(rawValue: 1)
    /// The claim is on the target of a symlink. The caller resolves the link; the arbiter ignores the option.
    package static let resolvesSymbolicLink = ReadingOptions(rawValue: 2)
    /// The read needs only metadata: nothing is downloaded and no presenter is asked. The claim waits only for an owner
    /// that deletes, moves or replaces the item.
    package static let immediatelyAvailableMetadataOnly = ReadingOptions(rawValue: 4)
    /// The read takes a snapshot; the claim lasts only while it is taken.
    package static let forUploading = ReadingOptions(rawValue: 8)

    private static let named: [(name: String, option: ReadingOptions)] = [
        ("without-changes", .withoutChanges), ("resolves-symbolic-link", .resolvesSymbolicLink),
        ("immediately-available-metadata-only", .immediatelyAvailableMetadataOnly), ("for-uploading", .forUploading),
    ]

    /// The names of all options.
    package static var names: [String] { named.map(\.name) }

    /// The names of these options.
    package var names: [String] { Self.named.filter { contains($0.option) }.map(\.name) }

    /// The option of that name.
    package init?(named name: String) {
        guard let found = Self.named.first(where: { $0.name == name }) else { return nil }
        self = found.option
    }
}

/// How a writer will change an item; at most one option.
package enum WritingOption: String, CaseIterable, Hashable, Sendable {
    case forDeleting = "for-deleting"
    case forMoving = "for-moving"
    /// Presenters save first, so that the writer can merge their changes.
    case forMerging = "for-merging"
    /// Another item replaces this one. Not for saving a document.
    case forReplacing = "for-replacing"
    /// The write changes only attributes that do not depend on the content.
    case contentIndependentMetadataOnly = "content-independent-metadata-only"
}
