import UbiquityCore

/// The first record of a segment.
package struct SegmentHeader: Sendable {
    private static let mark: UInt64 = 0x5562_4442_0000_0001

    package var schema: Int
    package var device: DeviceID
    package var number: Int
    /// The size of the segment before. A reader that has less of it waits, because it has not arrived completely.
    package var previousSize: Int
    package var tables: LogTables

    package init(schema: Int, device: DeviceID, number: Int, previousSize: Int, tables: LogTables) {
        (self.schema, self.device, self.number) = (schema, device, number)
        (self.previousSize, self.tables) = (previousSize, tables)
    }

    package var frame: [UInt8] {
        var writer = ByteWriter()
        writer.fixed(Self.mark)
        writer.varint(UInt64(schema))
        writer.fixed(device.number)
        writer.varint(UInt64(number))
        writer.varint(UInt64(previousSize))
        tables.write(to: &writer)
        return Frame.encode(writer.bytes)
    }

    package init(_ body: ArraySlice<UInt8>) throws {
        var reader = ByteReader(body)
        guard try reader.fixed() == Self.mark else { throw ByteReader.damage("it is no segment") }
        schema = Int(truncatingIfNeeded: try reader.varint())
        device = DeviceID(try reader.fixed())
        number = Int(truncatingIfNeeded: try reader.varint())
        previousSize = Int(truncatingIfNeeded: try reader.varint())
        tables = try LogTables(&reader)
    }
}
