/// A random 128-bit identity of one kind of thing. `Kind` prevents passing an item's id for a version's.
///
/// Devices create ids independently; 128 bits make a collision practically impossible.
public struct Identifier<Kind>: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The first eight bytes, big-endian.
    public let high: UInt64
    /// The last eight bytes, big-endian.
    public let low: UInt64

    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Makes a new identity from the given source of randomness.
    public init(using generator: inout some RandomNumberGenerator) {
        self.init(high: generator.next(), low: generator.next())
    }

    /// Makes the identity from 16 bytes; nil if there are more or fewer.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == 16 else { return nil }
        var words: (UInt64, UInt64) = (0, 0)
        for (position, byte) in bytes.enumerated() {
            if position < 8 { words.0 = words.0 << 8 | UInt64(byte) } else { words.1 = words.1 << 8 | UInt64(byte) }
        }
        self.init(high: words.0, low: words.1)
    }

    /// Makes the identity from 32 hexadecimal digits; nil for any other text.
    public init?(hex: String) {
        guard let bytes = Hex.decode(hex) else { return nil }
        self.init(bytes: bytes)
    }

    public var bytes: [UInt8] {
        var result = [UInt8]()
        result.reserveCapacity(16)
        for word in [high, low] {
            for shift in stride(from: 56, through: 0, by: -8) {
                result.append(UInt8(truncatingIfNeeded: word >> UInt64(shift)))
            }
        }
        return result
    }

    public var description: String { Hex.encode(bytes) }

    public static func < (left: Self, right: Self) -> Bool {
        (left.high, left.low) < (right.high, right.low)
    }
}

public enum ItemKindTag {}
public enum VersionTag {}
public enum DeviceTag {}
public enum RequestTag {}

/// A file, directory or symlink, through all renames and moves.
public typealias ItemID = Identifier<ItemKindTag>
/// One immutable content of a file.
public typealias VersionID = Identifier<VersionTag>
/// One machine (more exactly: one state folder) signed in to an account.
public typealias DeviceID = Identifier<DeviceTag>
/// One commit request; a repeat of the same request has no second effect.
public typealias RequestID = Identifier<RequestTag>

extension Identifier where Kind == ItemKindTag {
    /// The container's top folder. The id is the same in every container; the folder is never created or deleted.
    public static var root: ItemID { ItemID(high: 0, low: 0) }
}
