import UbiquityCore

/// Reads the entries of one device that this database lacks, in their order.
struct SegmentReader {
    /// Entries with the dictionary of their segment.
    struct Part {
        var entries: [LogEntry] = []
        var tables: LogTables
        var end: LogPosition
        /// The length of the entries in the segment.
        var length = 0
    }

    enum Stop: Hashable {
        /// Everything that the device wrote, as far as this device can see, is read.
        case atEnd
        /// A part has not arrived.
        case missing
        /// A newer program wrote the bytes after it.
        case newerSchema
        /// The bytes after it cannot be read; the value is the reason.
        case damaged(String)
    }

    let store: any LogStore
    let schema: Int
    let fault: DatabaseFault?

    /// - Parameter cutoff: The time of the last entry that counts, for a device that was retired.
    func read(
        _ segments: [Int: LogListing.Segment], from start: LogPosition, limit: Int, cutoff: UInt64?
    ) throws -> (parts: [Part], stop: Stop) {
        var position = start, parts: [Part] = [], bytesRead = 0
        while bytesRead < limit {
            // A segment that is gone may have been read to its end; the next one says so.
            let segment = segments[position.segment]
            if let segment, segment.schema > schema { return (parts, .newerSchema) }
            if let segment, segment.size > position.offset {
                guard let bytes = try store.read(segment.name, from: 0) else { return (parts, .missing) }
                do {
                    var part = try self.part(bytes, position, cutoff: cutoff)
                    part.length = part.end.offset - position.offset
                    bytesRead += part.length
                    let isOver = part.end.offset == position.offset
                    position = part.end
                    if !part.entries.isEmpty { parts.append(part) }
                    if let cutoff, position.time >= cutoff { return (parts, .atEnd) }
                    if isOver, segments[position.segment + 1] == nil { return (parts, .missing) }
                } catch let error as UbiquityError where error.code == .damaged {
                    return (parts, .damaged(error.description))
                }
            }
            guard let next = segments[position.segment + 1] else {
                return (parts, segments.keys.contains { $0 > position.segment } ? .missing : .atEnd)
            }
            guard next.schema <= schema else { return (parts, .newerSchema) }
            guard let head = try store.read(next.name, from: 0) else { return (parts, .missing) }
            guard let (body, _) = try? Frame.decode(head[...]), let header = try? SegmentHeader(body),
                header.previousSize == position.offset || fault == .skipsShortSegments
            else { return (parts, .missing) }
            position = LogPosition(time: position.time, segment: position.segment + 1)
        }
        return (parts, .missing)
    }

    private func part(_ bytes: [UInt8], _ start: LogPosition, cutoff: UInt64?) throws -> Part {
        guard let (head, headEnd) = try Frame.decode(bytes[...]) else {
            return Part(tables: LogTables([]), end: start)
        }
        let tables = try SegmentHeader(head).tables
        var part = Part(tables: tables, end: start)
        part.end.offset = max(start.offset, headEnd)
        guard part.end.offset <= bytes.count else { return part }
        while let (body, end) = try Frame.decode(bytes[part.end.offset...]) {
            let entry = try LogEntry(body, tables)
            if let cutoff, entry.time > cutoff { break }
            part.entries.append(entry)
            part.end = LogPosition(time: entry.time, segment: start.segment, offset: end)
        }
        return part
    }
}
