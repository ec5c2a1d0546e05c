package import UbiquityCore
internal import UbiquitySystem

/// A version that a program on this device has added to a file, for example before a revert. It stays on this device.
package struct AppVersion: Hashable, Sendable {
    /// Why the program added it.
    package enum Origin: String, Hashable, Sendable, CaseIterable {
        case autosaved
        case manual
        /// The content that a restored version replaced.
        case restored
    }

    package var id: VersionID
    package var item: ItemKey
    package var origin: Origin
    /// Whether it may be removed to make space for others.
    package var isDiscardable: Bool
    /// The file's name at that time.
    package var name: ItemName
    /// Size in bytes.
    package var size: Int64
    package var modifiedAt: Timestamp
    package var savedAt: Timestamp
    package var device: DeviceID
    package var deviceName: String

    package init(
        id: VersionID, item: ItemKey, origin: Origin, isDiscardable: Bool, name: ItemName, size: Int64,
        modifiedAt: Timestamp, savedAt: Timestamp, device: DeviceID, deviceName: String
    ) {
        self.id = id
        self.item = item
        self.origin = origin
        self.isDiscardable = isDiscardable
        self.name = name
        self.size = size
        self.modifiedAt = modifiedAt
        self.savedAt = savedAt
        self.device = device
        self.deviceName = deviceName
    }

    /// The version as lists show it: an earlier version.
    package var listed: RemoteVersion {
        RemoteVersion(
            content: RemoteContent(
                version: id, size: size, isAvailable: true, device: device, deviceName: deviceName, manifest: nil),
            kind: .history, modifiedAt: modifiedAt, savedAt: savedAt, savedName: name, baseVersion: nil)
    }
}

/// The text of an `AppVersion` in its file: a line for each value. Unknown lines are for newer programs.
extension AppVersion {
    var text: [UInt8] {
        let lines = [
            "origin \(origin.rawValue)", "discardable \(isDiscardable ? 1 : 0)", "size \(size)",
            "modified \(modifiedAt.nanoseconds)", "saved \(savedAt.nanoseconds)", "device \(device)",
            "name \(Hex.encode(name.bytes))", "device-name \(Hex.encode(Array(deviceName.utf8)))",
        ]
        return Array((lines.joined(separator: "\n") + "\n").utf8)
    }

    /// Nil if a value is missing or malformed.
    init?(id: VersionID, item: ItemKey, text: [UInt8]) {
        var values: [Substring: Substring] = [:]
        let whole = String(decoding: text, as: UTF8.self)
        for line in whole.split(separator: "\n") {
            let words = line.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
            if words.count == 2 { values[words[0]] = words[1] }
        }
        guard let origin = values["origin"].flatMap({ Origin(rawValue: String($0)) }),
            let size = values["size"].flatMap({ Int64($0) }), size >= 0,
            let modified = values["modified"].flatMap({ Int64($0) }),
            let saved = values["saved"].flatMap({ Int64($0) }),
            let device = values["device"].flatMap({ DeviceID(hex: String($0)) }),
            let name = values["name"].flatMap({ Hex.decode(String($0)) }).flatMap({ try? ItemName($0) }),
            let deviceName = values["device-name"].flatMap({ Hex.decode(String($0)) })
        else { return nil }
        self.init(
            id: id, item: item, origin: origin, isDiscardable: values["discardable"] == "1", name: name, size: size,
            modifiedAt: Timestamp(nanoseconds: modified), savedAt: Timestamp(nanoseconds: saved), device: device,
            deviceName: String(decoding: deviceName, as: UTF8.self))
    }
}
