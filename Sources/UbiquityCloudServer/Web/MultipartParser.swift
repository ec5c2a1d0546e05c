internal import UbiquityCore

/// Splits the body of a form with files, `multipart/form-data`, as it arrives (RFC 7578). It keeps no more than one
/// boundary or one heading in memory.
struct MultipartParser {
    enum Event: Equatable {
        /// A part begins.
        /// - Parameter file: the file's name. Nil for a plain field.
        case part(name: String, file: String?)
        case bytes([UInt8])
        case endOfPart
    }

    private enum Place { case preamble, afterBoundary, heading, content, end }

    private let boundary: [UInt8]
    private var place = Place.preamble
    /// A line end, so that the first boundary is found like all others.
    private var waiting: [UInt8] = [13, 10]

    /// - Parameter contentType: of the request.
    init(contentType: String?) throws(UbiquityError) {
        let parts = (contentType ?? "").split(separator: ";").map { $0.drop(while: { $0 == " " }) }
        guard parts.first?.lowercased() == "multipart/form-data",
            let text = parts.dropFirst().first(where: { $0.lowercased().hasPrefix("boundary=") })?.dropFirst(9)
        else { throw UbiquityError(.notSupported, "an upload is a form with files") }
        let bare = text.hasPrefix("\"") && text.hasSuffix("\"") && text.count > 1 ? text.dropFirst().dropLast() : text
        guard (1...70).contains(bare.utf8.count) else { throw Self.malformed("its boundary is no boundary") }
        boundary = Array("\r\n--\(bare)".utf8)
    }

    /// Adds bytes that follow the earlier ones.
    mutating func add(_ bytes: some Sequence<UInt8>) throws(UbiquityError) -> [Event] {
        waiting += bytes
        var events = [Event]()
        while try step(&events) {}
        return events
    }

    /// Throws `.invalid` if the body ended early: the browser was closed, or the connection broke off.
    func finish() throws(UbiquityError) {
        guard place == .end else { throw Self.malformed("it ends too early") }
    }

    /// - Returns: whether there may be more in the waiting bytes.
    private mutating func step(_ events: inout [Event]) throws(UbiquityError) -> Bool {
        switch place {
        case .end:
            waiting = []
            return false
        case .preamble, .content: return content(&events)
        case .afterBoundary:
            guard waiting.count >= 2 else { return false }
            let mark = [waiting[0], waiting[1]]
            guard mark == [13, 10] || mark == [45, 45] else { throw Self.malformed("a boundary does not end its line") }
            waiting.removeFirst(2)
            place = mark == [45, 45] ? .end : .heading
            return true
        case .heading:
            guard let end = Self.find([13, 10, 13, 10], in: waiting) else {
                guard waiting.count <= WebLimits.partHeader else { throw Self.malformed("a heading is too long") }
                return false
            }
            events.append(try Self.part(String(decoding: waiting[..<end], as: UTF8.self)))
            waiting.removeFirst(end + 4)
            place = .content
            return true
        }
    }

    private mutating func content(_ events: inout [Event]) -> Bool {
        let isPart = place == .content
        guard let end = Self.find(boundary, in: waiting) else {
            // The last bytes may be the beginning of a boundary.
            let sure = waiting.count - boundary.count + 1
            guard sure > 0 else { return false }
            if isPart { events.append(.bytes(Array(waiting[..<sure]))) }
            waiting.removeFirst(sure)
            return false
        }
        if isPart {
            if end > 0 { events.append(.bytes(Array(waiting[..<end]))) }
            events.append(.endOfPart)
        }
        waiting.removeFirst(end + boundary.count)
        place = .afterBoundary
        return true
    }

    private static func find(_ wanted: [UInt8], in bytes: [UInt8]) -> Int? {
        guard bytes.count >= wanted.count else { return nil }
        return bytes.withUnsafeBufferPointer { all in
            wanted.withUnsafeBufferPointer { part in
                var place = 0
                let last = all.count - part.count
                while place <= last {
                    if all[place] == part[0] {
                        var length = 1
                        while length < part.count, all[place + length] == part[length] { length += 1 }
                        if length == part.count { return place }
                    }
                    place += 1
                }
                return nil
            }
        }
    }

    private static func part(_ heading: String) throws(UbiquityError) -> Event {
        let lines = heading.split(separator: "\r\n")
        guard let line = lines.first(where: { $0.lowercased().hasPrefix("content-disposition:") }),
            let name = parameter("name", of: line)
        else { throw malformed("a part has no name") }
        return .part(name: name, file: parameter("filename", of: line))
    }

    /// Browsers write quotes and line ends in names as "%22", "%0D" and "%0A".
    private static func parameter(_ name: String, of line: Substring) -> String? {
        guard let start = line.firstRange(of: "; \(name)=\"")?.upperBound,
            let end = line[start...].firstIndex(of: "\"")
        else { return nil }
        return String(line[start..<end]).replacing("%22", with: "\"").replacing("%0D", with: "\r")
            .replacing("%0A", with: "\n")
    }

    private static func malformed(_ reason: String) -> UbiquityError {
        UbiquityError(.invalid, "the upload cannot be read: \(reason)", remedy: "upload it again")
    }
}
