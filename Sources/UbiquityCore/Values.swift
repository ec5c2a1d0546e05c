/// Nanoseconds since 1970-01-01 UTC. 64 bits reach from 1677 to 2262; times outside are clamped.
public struct Timestamp: Hashable, Comparable, Sendable {
    public var nanoseconds: Int64

    public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    /// Makes a timestamp from seconds and nanoseconds, clamped to the range.
    public init(seconds: Int64, nanoseconds: Int64) {
        let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, overflowToo) = scaled.addingReportingOverflow(nanoseconds)
        self.nanoseconds = overflow || overflowToo ? (seconds < 0 ? .min : .max) : sum
    }

    /// Makes a timestamp from seconds as used in messages, clamped to the range; zero for NaN.
    public init(seconds: Double) {
        // As a `Double`, the largest number of nanoseconds rounds up to one that does not fit.
        let scaled = seconds * 1e9
        nanoseconds = Int64(exactly: scaled.rounded(.towardZero)) ?? (scaled.isNaN ? 0 : scaled < 0 ? .min : .max)
    }

    public static var zero: Timestamp { Timestamp(nanoseconds: 0) }

    /// Whole seconds, rounded down.
    public var seconds: Int64 {
        let (quotient, remainder) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        return remainder < 0 ? quotient - 1 : quotient
    }

    /// Nanoseconds past `seconds`, 0 ..< 1_000_000_000.
    public var subsecondNanoseconds: Int64 {
        let remainder = nanoseconds % 1_000_000_000
        return remainder < 0 ? remainder + 1_000_000_000 : remainder
    }

    public static func < (left: Self, right: Self) -> Bool { left.nanoseconds < right.nanoseconds }

    /// Returns the time that many seconds later, clamped.
    public func advanced(bySeconds seconds: Double) -> Timestamp {
        let sum = Double(nanoseconds) + seconds * 1e9
        guard sum < 9.2e18 else { return Timestamp(nanoseconds: .max) }
        guard sum > -9.2e18 else { return Timestamp(nanoseconds: .min) }
        // The amount alone does not fit, so the sum is as exact as a `Double` allows.
        guard abs(seconds) < 9.2e9 else { return Timestamp(nanoseconds: Int64(sum)) }
        return Timestamp(nanoseconds: nanoseconds &+ Int64(seconds * 1e9))
    }
}

/// A container's position in its change feed: 0 before the first commit, one more with each.
public struct Revision: Hashable, Comparable, Sendable, CustomStringConvertible {
    public var number: Int64
    public init(_ number: Int64) { self.number = number }
    public static var zero: Revision { Revision(0) }
    /// The next revision. The greatest one, which only a damaged database has, returns itself.
    public var next: Revision { Revision(number == .max ? number : number + 1) }
    public static func < (left: Self, right: Self) -> Bool { left.number < right.number }
    public var description: String { String(number) }
}

/// The name of a container: 1 to 64 letters, digits, ".", "_" and "-", not starting with "." or "-".
package struct ContainerID: Hashable, Sendable, CustomStringConvertible {
    package let name: String

    package init?(_ name: String) {
        let bytes = Array(name.utf8)
        guard (1...64).contains(bytes.count), bytes[0] != UInt8(ascii: "."), bytes[0] != UInt8(ascii: "-"),
            bytes.allSatisfy(Self.isAllowed)
        else { return nil }
        self.name = name
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
            true
        default: false
        }
    }

    package var description: String { name }
    package static let rules = "1 to 64 letters, digits, '.', '_' or '-', not starting with '.' or '-'"
}

/// The kind of an item. The numbers are stored and sent; they never change.
public enum ItemKind: UInt8, Hashable, Sendable {
    case file = 1
    case directory = 2
    case symlink = 3
    /// Another name of a file or symlink, whose id it has (`RemoteItem.linkTarget`). The name is a separate item, so
    /// that it is made, moved and deleted, and its conflicts are resolved, like any item.
    case hardLink = 4
    // Special files: they never leave the device they were made on.
    case fifo = 5
    case socket = 6
    case characterDevice = 7
    case blockDevice = 8

    /// Whether the item is a FIFO, a socket or a device node, which has a meaning on this machine only.
    public var isSpecial: Bool {
        switch self {
        case .file, .directory, .symlink, .hardLink: false
        case .fifo, .socket, .characterDevice, .blockDevice: true
        }
    }
}

/// An extended attribute: name with its namespace ("user.note") and value, both bytes.
public struct Xattr: Hashable, Sendable, Comparable {
    public var name: [UInt8]
    public var value: [UInt8]

    public init(name: [UInt8], value: [UInt8]) {
        self.name = name
        self.value = value
    }

    public static func < (left: Self, right: Self) -> Bool { left.name.lexicographicallyPrecedes(right.name) }
}
