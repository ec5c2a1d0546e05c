import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Small JSON files of the state folder, readable by their owner only.
enum StoredJSON {
    /// In bytes. The largest file, the sign-in, contains certificates, which are a little longer in JSON.
    private static let maximumLength = DeviceFiles.maximumLength

    /// The file's content; nil if there is no file. Throws `.invalid` if it is malformed.
    static func read<Content: Decodable>(_ type: Content.Type, at path: String) throws(UbiquityError) -> Content? {
        guard let bytes = try SmallFile.read(path, limit: maximumLength) else { return nil }
        do {
            return try ControlCodec.decode(type, from: bytes)
        } catch {
            throw UbiquityError(
                .invalid, "cannot read the file: \(error.message)", at: path, remedy: "repair or remove it")
        }
    }

    /// Replaces the file atomically and durably.
    static func write(_ content: some Encodable, at path: String) throws(UbiquityError) {
        try SmallFile.publish(ControlCodec.encode(content), at: path)
    }
}

extension DeviceFiles {
    static func read(_ deviceFolder: String) throws -> DeviceFiles {
        try DeviceFiles { try SmallFile.read(Path.join(deviceFolder, $0), limit: maximumLength) }
    }
}
