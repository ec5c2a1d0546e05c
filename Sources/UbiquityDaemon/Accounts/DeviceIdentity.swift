import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// The id and name of this device for the cloud and the user's other devices: `<state>/device.json`.
struct DeviceIdentity: Hashable, Sendable {
    let id: DeviceID
    let name: String

    private struct Stored: Codable {
        var id: String
        var name: String
        /// The key of identity tokens, see `DeviceFiles`.
        var secret: String?
    }

    /// The name of the device, which may have no identity yet.
    static func name(deviceFolder: String) throws(UbiquityError) -> String {
        try StoredJSON.read(Stored.self, at: Path.join(deviceFolder, "device.json"))?.name ?? ProcessHost.hostName
    }

    /// The identity in the state folder; a new one if there is none yet.
    /// - Parameter name: a new name for the device; nil keeps its name, which at first is the host's.
    static func load(deviceFolder: String, name: String?) throws(UbiquityError) -> DeviceIdentity {
        let path = Path.join(deviceFolder, DeviceFiles.deviceName)
        let known = try StoredJSON.read(Stored.self, at: path)
        var generator = SourcedGenerator(SystemRandom())
        guard let id = known.map({ DeviceID(hex: $0.id) }) ?? DeviceID(using: &generator) else {
            throw UbiquityError(
                .invalid, "the file does not contain a device's identity", at: path, remedy: "repair or remove it")
        }
        let identity = DeviceIdentity(id: id, name: name ?? known?.name ?? ProcessHost.hostName)
        if identity.name != known?.name || known?.secret == nil {
            let random = (0..<KeyedHash.length).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
            let secret = known?.secret ?? Hex.encode(random)
            let stored = Stored(id: identity.id.description, name: identity.name, secret: secret)
            try StoredJSON.write(stored, at: path)
        }
        return identity
    }
}
