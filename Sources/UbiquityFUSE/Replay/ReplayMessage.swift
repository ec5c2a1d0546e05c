internal import UbiquityCore
package import UbiquityVFS

// Encodes a replay's calls for the process that makes them. Both ends are of one build.

extension ReplayCall {
    /// In bytes; more than the longest path and names need.
    static let maximumLength = 16 << 10

    package var encoded: [UInt8] {
        var bytes: [UInt8] = [kind.rawValue, target == nil ? 0 : 1]
        for place in [place, target].compactMap({ $0 }) {
            bytes.add(place.inode)
            bytes.add(place.folder)
            bytes.add(place.name)
        }
        bytes.add(text)
        bytes.add(UInt64(bitPattern: modifiedAt.nanoseconds))
        return bytes
    }

    /// Nil for bytes that `encoded` does not produce.
    package init?(encoded: [UInt8]) {
        var rest = encoded[...]
        guard let number = rest.popFirst(), let kind = Kind(rawValue: number), let hasTarget = rest.popFirst(),
            let place = Place(&rest)
        else { return nil }
        self.init(kind, place)
        if hasTarget != 0 {
            guard let target = Place(&rest) else { return nil }
            self.target = target
        }
        guard let text = rest.takeBytes(), let time = rest.takeNumber(), rest.isEmpty else { return nil }
        self.text = text
        modifiedAt = Timestamp(nanoseconds: Int64(bitPattern: time))
    }
}

extension ReplayCall.Place {
    fileprivate init?(_ rest: inout ArraySlice<UInt8>) {
        guard let inode = rest.takeNumber(), let folder = rest.takeBytes(), let name = rest.takeBytes() else {
            return nil
        }
        self.init(folder: folder, inode: inode, name: name)
    }
}

extension [UInt8] {
    fileprivate mutating func add(_ number: UInt64) {
        for shift in stride(from: 0, to: 64, by: 8) { append(UInt8(truncatingIfNeeded: number >> UInt64(shift))) }
    }

    fileprivate mutating func add(_ bytes: [UInt8]) {
        add(UInt64(bytes.count))
        self += bytes
    }
}

extension ArraySlice<UInt8> {
    fileprivate mutating func takeNumber() -> UInt64? {
        guard count >= 8 else { return nil }
        let number = prefix(8).reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        removeFirst(8)
        return number
    }

    fileprivate mutating func takeBytes() -> [UInt8]? {
        guard let length = takeNumber(), length <= UInt64(count) else { return nil }
        defer { removeFirst(Int(length)) }
        return Array(prefix(Int(length)))
    }
}
