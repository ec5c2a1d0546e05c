/// An item's row in this device's index: never reused, never changed, never sent.
package struct ItemKey: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let rawValue: Int64
    package init(_ rawValue: Int64) { self.rawValue = rawValue }
    /// The container's top folder.
    package static let root = ItemKey(1)
    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    package var description: String { String(rawValue) }
}

/// A backing file in this device's content store: never reused. Its file name is the number in hexadecimal.
package struct ContentID: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let rawValue: Int64
    package init(_ rawValue: Int64) { self.rawValue = rawValue }
    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    package var description: String { String(rawValue, radix: 16) }
}
