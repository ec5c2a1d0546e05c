import UbiquityCore

/// A file of the log.
package struct LogFile: Hashable, Sendable {
    package var name: String
    package var size: Int

    package init(_ name: String, size: Int) {
        self.name = name
        self.size = size
    }
}

/// The folder of a database's log. A mount, a plain folder and the simulator provide it. All calls block.
package protocol LogStore: Sendable {
    /// All files, with names relative to the folder.
    func files() throws -> [LogFile]
    /// The bytes from an offset to the end; nil if this device cannot have them now, because the file is gone or its
    /// content is not here and cannot be downloaded.
    func read(_ name: String, from offset: Int) throws -> [UInt8]?
    /// Cuts the file to `offset`, appends, and flushes to disk. Makes the file and its folders.
    func append(_ bytes: [UInt8], to name: String, at offset: Int) throws
    /// Replaces a file in one step. Makes its folders.
    func replace(_ name: String, with bytes: [UInt8]) throws
    /// Removes a file. A file that does not exist is no error.
    func remove(_ name: String) throws
}

/// The names of the log's files.
package enum LogName: Hashable, Sendable {
    /// `logs/SCHEMA/DEVICE/NUMBER`
    case segment(schema: Int, device: DeviceID, number: Int)
    /// `devices/DEVICE`
    case device(DeviceID)
    /// `base/TIME-DEVICE/manifest`
    case manifest(BaseID)
    /// `base/TIME-DEVICE/NUMBER`
    case part(BaseID, Int)

    package var path: String {
        switch self {
        case .segment(let schema, let device, let number):
            "logs/\(Self.padded(schema, 6))/\(Self.hex(device.number))/\(Self.padded(number, 8))"
        case .device(let device): "devices/\(Self.hex(device.number))"
        case .manifest(let base): "base/\(Self.hex(base.time))-\(Self.hex(base.author.number))/manifest"
        case .part(let base, let number):
            "base/\(Self.hex(base.time))-\(Self.hex(base.author.number))/\(Self.padded(number, 8))"
        }
    }

    /// Nil for a file that is not one of the log's, such as a conflict copy or a file of a newer version.
    package init?(_ path: String) {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        switch (parts.first, parts.count) {
        case ("logs", 4):
            guard let schema = Int(parts[1]), let device = Self.number(parts[2]), let number = Int(parts[3]) else {
                return nil
            }
            self = .segment(schema: schema, device: DeviceID(device), number: number)
        case ("devices", 2):
            guard let device = Self.number(parts[1]) else { return nil }
            self = .device(DeviceID(device))
        case ("base", 3):
            let id = parts[1].split(separator: "-").map(String.init)
            guard id.count == 2, let time = Self.number(id[0]), let author = Self.number(id[1]) else { return nil }
            let base = BaseID(time: time, author: DeviceID(author))
            if parts[2] == "manifest" {
                self = .manifest(base)
            } else if let number = Int(parts[2]) {
                self = .part(base, number)
            } else {
                return nil
            }
        default: return nil
        }
        guard self.path == path else { return nil }
    }

    private static func padded(_ number: Int, _ digits: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, digits - text.count)) + text
    }

    private static func hex(_ number: UInt64) -> String {
        let text = String(number, radix: 16)
        return String(repeating: "0", count: 16 - text.count) + text
    }

    private static func number(_ text: String) -> UInt64? { text.count == 16 ? UInt64(text, radix: 16) : nil }
}

/// A base: the whole state of a database, written by one device.
package struct BaseID: Hashable, Comparable, Sendable {
    package var time: UInt64
    package var author: DeviceID

    package init(time: UInt64, author: DeviceID) {
        self.time = time
        self.author = author
    }

    package static func < (left: BaseID, right: BaseID) -> Bool {
        (left.time, left.author) < (right.time, right.author)
    }
}
