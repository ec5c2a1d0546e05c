internal import UbiquityCore

/// The encoding of lists in blob columns. Numbers are big-endian.
enum BlobCoding {
    // MARK: Manifests: for each chunk its id (32 bytes) and its length (4 bytes)

    static let referenceLength = ChunkID.byteCount + 4

    static func encode(_ manifest: Manifest) -> [UInt8] {
        var bytes = BlobWriter(capacity: manifest.count * referenceLength)
        for reference in manifest {
            bytes.append(reference.id.bytes)
            bytes.append(UInt32(clamping: reference.length))
        }
        return bytes.bytes
    }

    static func manifest(_ bytes: [UInt8]) throws(UbiquityError) -> Manifest {
        var reader = BlobReader(bytes)
        var manifest = Manifest()
        manifest.reserveCapacity(bytes.count / referenceLength)
        while !reader.isAtEnd {
            guard let id = ChunkID(bytes: try reader.take(ChunkID.byteCount)) else { throw BlobReader.damaged }
            manifest.append(ChunkReference(id: id, length: Int(try reader.number(UInt32.self))))
        }
        return manifest
    }

    // MARK: Attributes: for each the name's length (2 bytes), the value's (4 bytes), name and value

    static func encode(_ xattrs: [Xattr]) -> [UInt8]? {
        guard !xattrs.isEmpty else { return nil }
        var bytes = BlobWriter(capacity: 64)
        for attribute in xattrs {
            bytes.append(UInt16(clamping: attribute.name.count))
            bytes.append(UInt32(clamping: attribute.value.count))
            bytes.append(attribute.name)
            bytes.append(attribute.value)
        }
        return bytes.bytes
    }

    static func xattrs(_ bytes: [UInt8]) throws(UbiquityError) -> [Xattr] {
        var reader = BlobReader(bytes)
        var xattrs: [Xattr] = []
        while !reader.isAtEnd {
            let nameLength = Int(try reader.number(UInt16.self))
            let valueLength = Int(try reader.number(UInt32.self))
            let name = Array(try reader.take(nameLength))
            xattrs.append(Xattr(name: name, value: Array(try reader.take(valueLength))))
        }
        return xattrs
    }

    // MARK: Stamps: the distinct ones (32 bytes each) once, because a new item has one for all its groups

    private static let stampsFormat: UInt8 = 1

    static func encode(_ stamps: ItemStamps) -> [UInt8] {
        let names = stamps.xattrs.keys.sorted { $0.lexicographicallyPrecedes($1) }
        let all = [stamps.place, stamps.mode, stamps.times, stamps.content, stamps.existence]
            + names.compactMap { stamps.xattrs[$0] }
        var distinct: [FieldStamp] = []
        var indices: [UInt16] = []
        for stamp in all {
            let index = distinct.lastIndex(of: stamp) ?? distinct.count
            if index == distinct.count { distinct.append(stamp) }
            indices.append(UInt16(clamping: index))
        }
        var bytes = BlobWriter(capacity: 64)
        bytes.append([stampsFormat])
        bytes.append(UInt16(clamping: distinct.count))
        for stamp in distinct {
            bytes.append(UInt64(bitPattern: stamp.revision.number))
            bytes.append(UInt64(bitPattern: stamp.time.nanoseconds))
            bytes.append(stamp.device.bytes)
        }
        for index in indices.prefix(5) { bytes.append(index) }
        for (name, index) in zip(names, indices.dropFirst(5)) {
            bytes.append(UInt16(clamping: name.count))
            bytes.append(name)
            bytes.append(index)
        }
        return bytes.bytes
    }

    static func stamps(_ bytes: [UInt8]) throws(UbiquityError) -> ItemStamps {
        var reader = BlobReader(bytes)
        guard try reader.number(UInt8.self) == stampsFormat else { throw BlobReader.damaged }
        var distinct: [FieldStamp] = []
        for _ in 0..<(try reader.number(UInt16.self)) { distinct.append(try stamp(&reader)) }
        guard let first = distinct.first else { throw BlobReader.damaged }
        var stamps = ItemStamps(first)
        stamps.place = try pick(distinct, &reader)
        stamps.mode = try pick(distinct, &reader)
        stamps.times = try pick(distinct, &reader)
        stamps.content = try pick(distinct, &reader)
        stamps.existence = try pick(distinct, &reader)
        while !reader.isAtEnd {
            let name = Array(try reader.take(Int(try reader.number(UInt16.self))))
            stamps.xattrs[name] = try pick(distinct, &reader)
        }
        return stamps
    }

    private static func stamp(_ reader: inout BlobReader) throws(UbiquityError) -> FieldStamp {
        let revision = Int64(bitPattern: try reader.number(UInt64.self))
        let time = Int64(bitPattern: try reader.number(UInt64.self))
        guard let device = DeviceID(bytes: try reader.take(16)) else { throw BlobReader.damaged }
        return FieldStamp(revision: Revision(revision), time: Timestamp(nanoseconds: time), device: device)
    }

    private static func pick(_ stamps: [FieldStamp], _ reader: inout BlobReader) throws(UbiquityError) -> FieldStamp {
        let index = Int(try reader.number(UInt16.self))
        guard stamps.indices.contains(index) else { throw BlobReader.damaged }
        return stamps[index]
    }

    // MARK: Outcomes of a commit: 1 applied or 2 merged with the item's id, or 3

    static func encode(_ outcomes: [CommitPlan.Outcome]) -> [UInt8] {
        var bytes = BlobWriter(capacity: outcomes.count * 17)
        for outcome in outcomes {
            switch outcome {
            case .applied(let id): bytes.append([1] + id.bytes)
            case .merged(let id): bytes.append([2] + id.bytes)
            case .unknownItem: bytes.append([3])
            }
        }
        return bytes.bytes
    }

    static func outcomes(_ bytes: [UInt8]) throws(UbiquityError) -> [CommitPlan.Outcome] {
        var reader = BlobReader(bytes)
        var outcomes: [CommitPlan.Outcome] = []
        while !reader.isAtEnd {
            let kind = try reader.number(UInt8.self)
            if kind == 3 {
                outcomes.append(.unknownItem)
                continue
            }
            guard let id = ItemID(bytes: try reader.take(16)) else { throw BlobReader.damaged }
            switch kind {
            case 1: outcomes.append(.applied(id))
            case 2: outcomes.append(.merged(into: id))
            default: throw BlobReader.damaged
            }
        }
        return outcomes
    }
}

struct BlobWriter {
    private(set) var bytes: [UInt8] = []

    init(capacity: Int) { bytes.reserveCapacity(capacity) }

    mutating func append(_ more: [UInt8]) { bytes += more }

    mutating func append(_ number: some FixedWidthInteger & UnsignedInteger) {
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
    }
}

struct BlobReader {
    private let bytes: [UInt8]
    private var position = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    static var damaged: UbiquityError {
        UbiquityError(
            .damaged, "a record of the cloud's database is damaged",
            remedy: "run ubiquity doctor on a device that has all of it, or restore the data folder from a backup")
    }

    var isAtEnd: Bool { position == bytes.count }

    mutating func take(_ count: Int) throws(UbiquityError) -> ArraySlice<UInt8> {
        guard count <= bytes.count - position else { throw Self.damaged }
        defer { position += count }
        return bytes[position..<position + count]
    }

    mutating func number<N: FixedWidthInteger & UnsignedInteger>(_ type: N.Type) throws(UbiquityError) -> N {
        try take(MemoryLayout<N>.size).reduce(0) { number, byte in
            MemoryLayout<N>.size == 1 ? N(byte) : number << 8 | N(byte)
        }
    }
}
