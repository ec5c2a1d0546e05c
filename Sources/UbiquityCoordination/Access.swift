/// How an item is going to be used. Names are those of the original (NSFileCoordinator).
package enum Access: Hashable, Sendable {
    case reading(ReadingOptions)
    case writing(WritingOption?)
    /// The content goes from this device; the cloud has it.
    case evicting
}

public struct ReadingOptions: OptionSet, Hashable, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }
    /// Nobody is asked to save first: what is on the disk will do.
    public static let withoutChanges = ReadingOptions(rawValue: 1)
    /// The claim is on what a symlink leads to. Whoever makes the claim resolves it; to the arbiter it is nothing.
    public static let resolvesSymbolicLink = ReadingOptions(rawValue: 2)
    /// Only what is known of the item without its content: nothing is downloaded, nobody is asked, and only one who
    /// deletes, moves or replaces the item is waited for.
    public static let immediatelyAvailableMetadataOnly = ReadingOptions(rawValue: 4)
    /// A snapshot is taken and handed on; the claim lasts while it is taken.
    public static let forUploading = ReadingOptions(rawValue: 8)
}

/// What a writer is about to do; at most one.
package enum WritingOption: Int, Hashable, Sendable {
    case forDeleting = 1
    case forMoving = 2
    /// Others save first, so that their changes can be taken into account.
    case forMerging = 4
    /// Another item takes its place. Not for saving a document anew.
    case forReplacing = 8
    /// Only attributes that say nothing of the content.
    case contentIndependentMetadataOnly = 16
}

extension Access {
    var isReading: Bool {
        if case .reading = self { true } else { false }
    }

    /// Whether the item itself goes, or goes elsewhere: of a folder, all that is in it with it.
    var takesAway: Bool {
        switch self {
        case .writing(.forDeleting), .writing(.forMoving), .writing(.forReplacing): true
        case .writing, .reading, .evicting: false
        }
    }

    private var isMetadataReading: Bool {
        if case .reading(let options) = self { options.contains(.immediatelyAvailableMetadataOnly) } else { false }
    }

    /// Whether the two cannot be at the same time on the same unit.
    func excludes(_ other: Access) -> Bool {
        if isReading, other.isReading { return false }
        if isMetadataReading { return other.takesAway }
        if other.isMetadataReading { return takesAway }
        return true
    }

    /// Whether who has a claim for this access needs no questions asked for the other.
    func covers(_ other: Access) -> Bool {
        switch (self, other) {
        case (_, .evicting), (.evicting, _): self == other
        case (.reading(let mine), .reading(let options)): mine == options || mine.isEmpty
        case (.reading, .writing): false
        case (.writing(.contentIndependentMetadataOnly), .reading): false
        case (.writing, .reading): true
        // A program that opens for writing what it has claimed merges nothing that its client did not want.
        case (.writing(let mine), .writing(let option)): mine == option || option == nil || option == .forMerging
        }
    }

    /// The stronger of two accesses of one claim to one unit.
    func joined(with other: Access) -> Access {
        switch (self, other) {
        case (.reading(let mine), .reading(let options)): .reading(mine.intersection(options))
        case (.reading, _): other
        case (.writing(nil), .writing): other
        case (.writing(.contentIndependentMetadataOnly), .writing): other
        default: self
        }
    }
}

/// One item of a claim, and what for.
package struct ClaimIntent: Hashable, Sendable {
    package var target: ClaimTarget
    package var access: Access
    package init(_ target: ClaimTarget, _ access: Access) {
        self.target = target
        self.access = access
    }
}
