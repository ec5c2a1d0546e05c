package import UbiquityCore

/// A program that takes part at the local socket, for as long as its connection lasts.
package struct ClientID: Hashable, Comparable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
    package static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

/// A client's interest in one item, or in a folder with all that is in it.
package struct PresenterID: Hashable, Comparable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
    package static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

/// A claim, from the moment it is asked for until it is given back. Numbers grow: a smaller one came first.
package struct ClaimID: Hashable, Comparable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
    package static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

/// Something that a presenter is asked and has to answer.
package struct QuestionID: Hashable, Comparable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
    package static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

/// Who makes a claim. One's own claims never hold one up; see `Arbiter`.
package enum ClaimOwner: Hashable, Sendable {
    case client(ClientID)
    /// A program that knows nothing of coordination, through the mount. The number is a process's or a thread's.
    case program(Int32)
    /// This device, on behalf of the cloud or of who manages the storage.
    case system
}

/// What a claim is about: an item, or a name where nothing is yet.
package struct ClaimTarget: Hashable, Sendable {
    package var item: ItemKey?
    /// The folder and the name it has there; nil for the top folder, and for what has no place any more.
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

    /// A name that is free.
    package init(name: ItemName, in parent: ItemKey) {
        item = nil
        entry = Entry(parent: parent, name: name)
        isFolder = false
    }
}

/// What is claimed as one: a package with everything in it, another item alone, or a free name.
package enum ClaimUnit: Hashable, Sendable {
    case item(ItemKey)
    case name(parent: ItemKey, ItemName)
}
