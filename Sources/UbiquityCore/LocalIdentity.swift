/// The key of an item's row in this device's index: never reused, never changed, never sent.
public struct ItemKey: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: Int64
    public init(_ rawValue: Int64) { self.rawValue = rawValue }
    /// The container's top folder.
    public static var root: ItemKey { ItemKey(1) }
    public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    public var description: String { String(rawValue) }
}

/// The id of a backing file in this device's content store: never reused. Its file name is the number in hexadecimal.
public struct ContentID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let rawValue: Int64
    public init(_ rawValue: Int64) { self.rawValue = rawValue }
    public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
    public var description: String { String(rawValue, radix: 16) }
}
