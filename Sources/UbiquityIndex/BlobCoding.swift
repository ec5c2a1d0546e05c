internal import UbiquityCore

/// The encoding of lists in blob columns. All numbers are big-endian.
enum BlobCoding {
    /// Encodes attributes, each as name length (2 bytes), value length (4 bytes), name, value. No attributes give no
    /// bytes.
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

    /// Decodes attributes; nil if the bytes are damaged.
    static func readable(_ bytes: [UInt8]?) -> [Xattr]? { try? xattrs(bytes) }

    /// Encodes times, each as field (1 byte), nanoseconds (8 bytes); for an attribute also name length (2 bytes) and
    /// name.
    static func encode(_ times: [FieldTime]) -> [UInt8] {
        var bytes = [UInt8]()
        for each in times {
            let (field, name) = code(of: each.field)
            bytes.append(field.rawValue)
            append(Int(each.time.nanoseconds), width: 8, to: &bytes)
            guard field == .xattr else { continue }
            append(name.count, width: 2, to: &bytes)
            bytes += name
        }
        return bytes
    }

    /// Decodes times up to the first damaged one. A field without a time counts as changed with the last change.
    static func fieldTimes(_ bytes: [UInt8]?) -> [FieldTime] {
        guard let bytes else { return [] }
        var rest = bytes[...], result = [FieldTime]()
        while let next = try? fieldTime(&rest) { result.append(next) }
        return result
    }

    private static func fieldTime(_ rest: inout ArraySlice<UInt8>) throws -> FieldTime {
        guard let code = FieldCode(rawValue: UInt8(try number(&rest, width: 1))) else { throw damaged }
        let time = Timestamp(nanoseconds: Int64(try number(&rest, width: 8)))
        let field: FieldTime.Field = switch code {
        case .place: .place
        case .mode: .mode
        case .times: .times
        case .content: .content
        case .xattr: .xattr(try take(number(&rest, width: 2), from: &rest))
        }
        return FieldTime(field, at: time)
    }

    /// The numbers are stored on disk.
    private enum FieldCode: UInt8 { case place = 1, mode = 2, times = 3, content = 4, xattr = 5 }

    private static func code(of field: FieldTime.Field) -> (FieldCode, name: [UInt8]) {
        switch field {
        case .place: (.place, [])
        case .mode: (.mode, [])
        case .times: (.times, [])
        case .content: (.content, [])
        case .xattr(let name): (.xattr, name)
        }
    }

    /// Bytes per chunk: id (32 bytes), length (4 bytes).
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
