package import UbiquityCore

/// How an item will be used. The names follow NSFileCoordinator.
package enum Access: Hashable, Sendable {
    case reading(ReadingOptions)
    case writing(WritingOption?)
    /// The content is removed from this device; the cloud keeps it.
    case evicting
}

extension Access {
    var isReading: Bool {
        if case .reading = self { true } else { false }
    }

    /// Whether the access removes or moves the item itself, and a folder with everything in it.
    var takesAway: Bool {
        switch self {
        case .writing(.forDeleting), .writing(.forMoving), .writing(.forReplacing): true
        case .writing, .reading, .evicting: false
        }
    }

    private var isMetadataReading: Bool {
        if case .reading(let options) = self { options.contains(.immediatelyAvailableMetadataOnly) } else { false }
    }

    /// Returns whether the two accesses cannot hold the same unit at one time.
    func excludes(_ other: Access) -> Bool {
        if isReading, other.isReading { return false }
        if isMetadataReading { return other.takesAway }
        if other.isMetadataReading { return takesAway }
        return true
    }

    /// Returns whether an owner with this claim needs no further requests to presenters for the other access.
    func covers(_ other: Access) -> Bool {
        switch (self, other) {
        case (_, .evicting), (.evicting, _): self == other
        case (.reading(let mine), .reading(let options)): mine == options || mine.isEmpty
        case (.reading, .writing): false
        case (.writing(.contentIndependentMetadataOnly), .reading): false
        case (.writing, .reading): true
        // A program that opens its own claimed item for writing does not merge anything unwanted.
        case (.writing(let mine), .writing(let option)): mine == option || option == nil || option == .forMerging
        }
    }

    /// Returns the stronger of two accesses of one claim to one unit.
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

/// One item of a claim, and its access.
package struct ClaimIntent: Hashable, Sendable {
    package var target: ClaimTarget
    package var access: Access
    package init(_ target: ClaimTarget, _ access: Access) {
        self.target = target
        self.access = access
    }
}
