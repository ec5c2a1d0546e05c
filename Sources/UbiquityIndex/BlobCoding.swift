internal import UbiquityCore

/// How lists stand in a blob column. All numbers are big-endian.
enum BlobCoding {
    /// Each attribute: name length (2 bytes), value length (4 bytes), name, value. Nothing for no attributes.
    static func encode(_ xattrs: [Xattr]) -> [UInt8] {
        var bytes = [UInt8]()
        for xattr in xattrs {
            append(xattr.name.count, width: 2, to: &bytes)
            append(xattr.value.count, width: 4, to: &bytes)
            bytes += xattr.name
            bytes += xattr.value
        }
        return bytes
    }

    static func xattrs(_ bytes: [UInt8]?) throws -> [Xattr] {
        guard let bytes else { return [] }
        var rest = bytes[...]
        var result = [Xattr]()
        while !rest.isEmpty {
            let nameLength = try number(&rest, width: 2)
            let valueLength = try number(&rest, width: 4)
            let name = try take(nameLength, from: &rest)
            result.append(Xattr(name: name, value: try take(valueLength, from: &rest)))
        }
        return result
    }

    /// Nil if they cannot be read.
    static func readable(_ bytes: [UInt8]?) -> [Xattr]? { try? xattrs(bytes) }

    /// Bytes that a chunk takes: id (32 bytes), length (4 bytes).
    static let chunkBytes = ChunkID.byteCount + 4

    static func encode(_ manifest: Manifest) -> [UInt8] {
        var bytes = [UInt8]()
        bytes.reserveCapacity(manifest.count * chunkBytes)
        for chunk in manifest {
            bytes += chunk.id.bytes
            append(chunk.length, width: 4, to: &bytes)
        }
        return bytes
    }

    static func manifest(_ bytes: [UInt8]) throws -> Manifest {
        var rest = bytes[...]
        var result = Manifest()
        result.reserveCapacity(bytes.count / chunkBytes)
        while !rest.isEmpty {
            guard let id = ChunkID(bytes: try take(ChunkID.byteCount, from: &rest)) else { throw damaged }
            result.append(ChunkReference(id: id, length: try number(&rest, width: 4)))
        }
        return result
    }

    static var damaged: UbiquityError {
        UbiquityError(
            .io, "a record of the index is damaged", remedy: "unmount, and run ubiquity doctor --state DIR")
    }

    private static func append(_ number: Int, width: Int, to bytes: inout [UInt8]) {
        for shift in stride(from: (width - 1) * 8, through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: number >> shift))
        }
    }

    private static func number(_ bytes: inout ArraySlice<UInt8>, width: Int) throws -> Int {
        try take(width, from: &bytes).reduce(0) { $0 << 8 | Int($1) }
    }

    private static func take(_ count: Int, from bytes: inout ArraySlice<UInt8>) throws -> [UInt8] {
        guard bytes.count >= count else { throw damaged }
        defer { bytes = bytes.dropFirst(count) }
        return Array(bytes.prefix(count))
    }
}
