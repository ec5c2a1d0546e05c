internal import UbiquityCore

/// The repeated fields of a message, with the memory that each entry takes.
struct MessageShape: Sendable {
    struct Entry: Sendable {
        /// Bytes of memory per entry, decoded and as a value, without the bytes that it holds.
        var cost = 0
        /// The smallest size of an entry on the wire, in bytes.
        var shortest = 0
        var inside: MessageShape?
    }

    var entries: [Int: Entry]

    init(_ entries: [Int: Entry] = [:]) { self.entries = entries }

    // MARK: Our messages, by the numbers of ubiquity.proto

    /// Chunks of a manifest that is parsed directly, see `ManifestExtractor`.
    static let manifest = MessageShape([1: Entry(cost: 48, shortest: CensusLimits.shortestChunk)])
    /// Chunks of a manifest inside an item's record.
    private static let inlineManifest = MessageShape([1: Entry(cost: 240, shortest: CensusLimits.shortestChunk)])
    private static let xattr = Entry(cost: 160, shortest: 3)
    private static let content = MessageShape([6: Entry(inside: inlineManifest)])
    private static let version = MessageShape([1: Entry(inside: content)])
    static let item = MessageShape([10: xattr, 12: Entry(inside: content), 14: Entry(cost: 300, inside: version)])
    private static let changedFields = MessageShape([
        5: xattr, 6: Entry(cost: 80), 8: Entry(inside: MessageShape([4: Entry(inside: manifest)])), 9: Entry(cost: 160),
    ])
    private static let change = MessageShape([
        5: Entry(inside: changedFields), 7: Entry(inside: MessageShape([1: Entry(cost: 200)])),
    ])
    private static let package = MessageShape([4: Entry(inside: MessageShape([3: Entry(inside: manifest)]))])
    static let commit = MessageShape([
        4: Entry(cost: 1024, inside: change), 5: Entry(cost: 256), 8: Entry(cost: 1024, inside: package),
    ])
    static let response = MessageShape([2: Entry(cost: 1200, inside: MessageShape([3: Entry(inside: item)]))])
    static let page = MessageShape([1: Entry(cost: 1024, inside: item)])
    static let versions = MessageShape([1: Entry(cost: 600, inside: version)])
    static let trash = MessageShape([1: Entry(cost: 1500, inside: MessageShape([1: Entry(inside: item)]))])
    static let chunkIDs = MessageShape([1: Entry(cost: 100)])
    static let failure = MessageShape([5: Entry(cost: 100)])
    static let member = MessageShape([1: Entry(inside: MessageShape([6: xattr]))])
}

/// Limits on the memory of a message, checked before it is decoded.
enum CensusLimits {
    /// Bytes of memory for the entries, per byte of the message. With the message itself and the shared overhead, that
    /// is less than four times its length.
    static let memoryPerByte = 2
    /// Bytes of memory that the entries of a small message may take.
    static let memory = 16 << 20
    /// The smallest average length of a field of any kind, in bytes. Small messages are exempt.
    static let bytesPerField = 4
    static let fields = 65_536
    /// A chunk's id and its length.
    static let shortestChunk = 36
    /// Bytes of a message in JSON, which people write by hand.
    static let jsonLength = 8 << 20
    /// Bytes of memory for an object, and for any other element, in JSON.
    static let jsonObject = 300
    static let jsonElement = 64
}

/// Counts the entries of a message in one pass over its bytes, before it is decoded: an empty entry of two bytes would
/// take a hundred times as much memory.
struct MessageCensus {
    private let length: Int
    private let memoryLimit: Int
    private let fieldLimit: Int
    private var memory = 0
    private var fields = 0

    private init(length: Int) {
        self.length = length
        memoryLimit = CensusLimits.memory + length * CensusLimits.memoryPerByte
        fieldLimit = CensusLimits.fields + length / CensusLimits.bytesPerField
    }

    /// - Throws: `.invalid` for a message that would take too much memory.
    static func check(_ bytes: [UInt8], _ shape: MessageShape) throws(UbiquityError) {
        var census = MessageCensus(length: bytes.count)
        var failure: UbiquityError?
        bytes.withUnsafeBytes { raw in
            do throws(UbiquityError) { try census.count(raw, 0..<raw.count, shape) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    private mutating func count(
        _ bytes: UnsafeRawBufferPointer, _ range: Range<Int>, _ shape: MessageShape
    ) throws(UbiquityError) {
        var reader = WireReader(bytes, range)
        while let field = reader.next() {
            fields += 1
            guard fields <= fieldLimit else { throw tooMany() }
            guard let entry = shape.entries[field.number], field.type == 2 else { continue }
            guard field.content.count >= entry.shortest else {
                throw .malformed("entries of \(field.content.count) bytes, too short for an entry")
            }
            memory += entry.cost
            guard memory <= memoryLimit else { throw tooMany() }
            if let inside = entry.inside { try count(bytes, field.content, inside) }
        }
    }

    private func tooMany() -> UbiquityError {
        .malformed("more than \(fields - 1) entries in a message of \(length) bytes")
    }

    /// The same for JSON, by its braces and commas. Those inside texts count too.
    static func checkJSON(_ bytes: [UInt8]) throws(UbiquityError) {
        guard bytes.count <= CensusLimits.jsonLength else {
            throw UbiquityError(
                .tooLarge, "a message of \(bytes.count) bytes in JSON; \(CensusLimits.jsonLength) are possible",
                remedy: "send \(WireFormat.protobuf.mediaType)")
        }
        var objects = 0, elements = 0
        for byte in bytes {
            if byte == UInt8(ascii: "{") { objects += 1 }
            if byte == UInt8(ascii: ",") { elements += 1 }
        }
        let memory = objects * CensusLimits.jsonObject + elements * CensusLimits.jsonElement
        guard memory <= CensusLimits.memory + bytes.count * CensusLimits.memoryPerByte else {
            throw .malformed("more than \(max(objects, elements)) entries in a message of \(bytes.count) bytes")
        }
    }
}
