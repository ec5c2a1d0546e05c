package import UbiquityCore
internal import UbiquityWire

/// Parses server-sent events from pieces of any length, as far as the cloud uses them: `event: revision`,
/// `event: keyvalues` or `event: failure`, and one line of data. Comments and events of other names are ignored.
package struct EventParser {
    /// Whether each event must have its digest, because the cloud has announced that it sends them.
    private let requiresDigest: Bool
    private var line: [UInt8] = []
    private var name = ""
    private var data = ""
    private var digest: String?

    package init(requiresDigest: Bool = false) { self.requiresDigest = requiresDigest }

    package enum Event: Hashable, Sendable {
        case revision(Revision)
        /// The feed of key-values has this revision.
        case keyValues(Revision)
    }

    /// The events that these bytes complete.
    /// - Throws: the failure that the cloud sent; `.invalid` for data that is no revision, and for endless lines.
    package mutating func push(_ bytes: UnsafeRawBufferPointer) throws(UbiquityError) -> [Event] {
        var events = [Event]()
        for byte in bytes {
            guard byte == UInt8(ascii: "\n") else {
                guard line.count < ClientLimits.eventLineLength else {
                    throw UbiquityError(.invalid, "a line of the cloud's event stream exceeds the limit")
                }
                line.append(byte)
                continue
            }
            if line.last == UInt8(ascii: "\r") { line.removeLast() }
            let text = String(decoding: line, as: UTF8.self)
            line.removeAll(keepingCapacity: true)
            if let event = try take(text) { events.append(event) }
        }
        return events
    }

    private mutating func take(_ text: String) throws(UbiquityError) -> Event? {
        guard text.isEmpty else {
            if let value = Self.value(of: "event", in: text) { name = value }
            if let value = Self.value(of: "data", in: text) { data = value }
            if let value = Self.value(of: "digest", in: text) { digest = value }
            return nil
        }
        defer { (name, data, digest) = ("", "", nil) }
        guard ["revision", "keyvalues", "failure"].contains(name) else { return nil }
        guard digest.map({ $0 == MessageDigest.ofEvent(data) }) ?? !requiresDigest else {
            throw UbiquityError(.offline, "an event of the cloud was damaged in transit: its digest is wrong")
        }
        switch name {
        case "revision": return .revision(try Self.revision(data))
        case "keyvalues": return .keyValues(try Self.revision(data))
        default: throw try WireFailure(wire: Array(data.utf8), as: .json).error
        }
    }

    private static func value(of field: String, in text: String) -> String? {
        guard text.hasPrefix(field + ":") else { return nil }
        let value = text.dropFirst(field.count + 1)
        return String(value.first == " " ? value.dropFirst() : value)
    }

    /// Parses `{"revision":N}`, with blanks anywhere.
    private static func revision(_ data: String) throws(UbiquityError) -> Revision {
        let plain = data.filter { $0 != " " && $0 != "\t" }
        guard plain.hasPrefix("{\"revision\":"), plain.hasSuffix("}"),
            let number = Int64(plain.dropFirst(12).dropLast()), number >= 0
        else { throw UbiquityError(.invalid, "an event of the cloud is not a revision: \(data.prefix(80))") }
        return Revision(number)
    }
}
