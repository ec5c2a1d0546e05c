package import UbiquityCore

/// A program connected to the local socket, for as long as its connection lasts.
package struct ClientID: Hashable, Comparable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
    package static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

/// A client's registration for one item, or for a folder with everything in it.
package struct PresenterID: Hashable, Comparable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
    package static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

/// A claim, from its request until its release. Numbers increase: a smaller one came first.
package struct ClaimID: Hashable, Comparable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
    package static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

/// A question that a presenter must answer.
package struct QuestionID: Hashable, Comparable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
    package static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

/// The owner of a claim. An owner's claims never block each other; see `Arbiter`.
package enum ClaimOwner: Hashable, Sendable {
    case client(ClientID)
    /// A program that does not coordinate, through the mount. The number is a process's or a thread's.
    case program(Int32)
    /// This device, on behalf of the cloud or of the storage management.
    case system
}

/// The target of a claim: an item, or a free name.
package struct ClaimTarget: Hashable, Sendable {
    package var item: ItemKey?
    /// The folder and the name; nil for the top folder, and for an item without an entry.
    package var entry: Entry?
    package var isFolder: Bool

    package struct Entry: Hashable, Sendable {
        package var parent: ItemKey
        package var name: ItemName
        package init(parent: ItemKey, name: ItemName) {
            self.parent = parent
            self.name = name
        }
    }

    package init(item: ItemKey, entry: Entry?, isFolder: Bool) {
        self.item = item
        self.entry = entry
        self.isFolder = isFolder
    }

    /// A free name.
    package init(name: ItemName, in parent: ItemKey) {
        item = nil
        entry = Entry(parent: parent, name: name)
        isFolder = false
    }
}

/// The unit of a claim: a package with everything in it, another item alone, or a free name.
package enum ClaimUnit: Hashable, Sendable {
    case item(ItemKey)
    case name(parent: ItemKey, ItemName)
}
