import UbiquityCore

/// How far a device's log is known: the time of its last entry, and the position after it.
package struct LogPosition: Hashable, Sendable {
    package var time: UInt64 = 0
    package var segment = 1
    package var offset = 0

    package init(time: UInt64 = 0, segment: Int = 1, offset: Int = 0) {
        self.time = time
        self.segment = segment
        self.offset = offset
    }

    func write(to writer: inout ByteWriter) {
        writer.varint(time)
        writer.count(segment)
        writer.count(offset)
    }

    init(_ reader: inout ByteReader) throws {
        time = try reader.varint()
        segment = Int(truncatingIfNeeded: try reader.varint())
        offset = Int(truncatingIfNeeded: try reader.varint())
        guard time < HybridClock.limit, (0..<1 << 32).contains(segment), offset >= 0 else {
            throw ByteReader.damage("a position is not possible")
        }
    }
}

/// A device's own record: its schema, and the state of its import. Only that device writes it.
package struct DeviceRecord: Hashable, Sendable {
    package var schema: Int
    /// Changes with every writing, so that others see that the device lives.
    package var time: UInt64
    package var seen: [DeviceID: UInt64]

    package init(schema: Int, time: UInt64, seen: [DeviceID: UInt64]) {
        self.schema = schema
        self.time = time
        self.seen = seen
    }

    package var bytes: [UInt8] {
        var writer = ByteWriter()
        writer.count(schema)
        writer.varint(time)
        writer.count(seen.count)
        for (device, time) in seen.sorted(by: { $0.key < $1.key }) {
            writer.fixed(device.number)
            writer.varint(time)
        }
        return Frame.encode(writer.bytes)
    }

    package init(_ bytes: [UInt8]) throws {
        guard let (body, _) = try Frame.decode(bytes[...]) else { throw ByteReader.damage("it ends early") }
        var reader = ByteReader(body)
        schema = Int(truncatingIfNeeded: try reader.varint())
        time = try reader.varint()
        seen = [:]
        for _ in 0..<(try reader.count()) { seen[DeviceID(try reader.fixed())] = try reader.varint() }
    }
}

/// The description of a base. A base without it is not complete.
package struct BaseManifest: Hashable, Sendable {
    package var id: BaseID
    package var schema: Int
    package var parts: Int
    /// The entries that the base contains: of each device those up to the position.
    package var seen: [DeviceID: LogPosition]
    /// Devices that were away too long, with the time of their last accepted entry. Their later entries are ignored;
    /// such a device returns under a new number.
    package var retired: [DeviceID: UInt64]
    package var tables: LogTables

    package init(
        id: BaseID, schema: Int, parts: Int, seen: [DeviceID: LogPosition], retired: [DeviceID: UInt64],
        tables: LogTables
    ) {
        (self.id, self.schema, self.parts) = (id, schema, parts)
        (self.seen, self.retired, self.tables) = (seen, retired, tables)
    }

    package var bytes: [UInt8] {
        var writer = ByteWriter()
        writer.count(schema)
        writer.count(parts)
        writer.count(seen.count)
        for (device, position) in seen.sorted(by: { $0.key < $1.key }) {
            writer.fixed(device.number)
            position.write(to: &writer)
        }
        writer.count(retired.count)
        for (device, time) in retired.sorted(by: { $0.key < $1.key }) {
            writer.fixed(device.number)
            writer.varint(time)
        }
        tables.write(to: &writer)
        return Frame.encode(writer.bytes)
    }

    package init(id: BaseID, _ bytes: [UInt8]) throws {
        guard let (body, _) = try Frame.decode(bytes[...]) else { throw ByteReader.damage("it ends early") }
        var reader = ByteReader(body)
        self.id = id
        schema = Int(truncatingIfNeeded: try reader.varint())
        parts = Int(truncatingIfNeeded: try reader.varint())
        (seen, retired) = ([:], [:])
        for _ in 0..<(try reader.count()) {
            let device = DeviceID(try reader.fixed())
            seen[device] = try LogPosition(&reader)
        }
        for _ in 0..<(try reader.count()) { retired[DeviceID(try reader.fixed())] = try reader.varint() }
        tables = try LogTables(&reader)
    }

    /// Whether this base may follow another one: it contains all entries of that one, and none of a device that was
    /// retired there.
    package func follows(_ earlier: BaseManifest) -> Bool {
        earlier.seen.allSatisfy { (seen[$0.key]?.time ?? 0) >= $0.value.time }
            && earlier.retired.allSatisfy { retired[$0.key] == $0.value && (seen[$0.key]?.time ?? 0) <= $0.value }
    }

    /// Two devices may write bases at the same time. Every device then accepts the same bases.
    package static func accepted(_ manifests: [BaseManifest]) -> [BaseManifest] {
        var result: [BaseManifest] = []
        for manifest in manifests.sorted(by: { $0.id < $1.id }) where result.last.map(manifest.follows) ?? true {
            result.append(manifest)
        }
        return result
    }
}
