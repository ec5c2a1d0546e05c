import UbiquityCore
import UbiquitySystem

/// The id and name of this device for the cloud and the user's other devices: `<state>/device.json`.
struct DeviceIdentity: Hashable, Sendable {
    let id: DeviceID
    let name: String

    private struct Stored: Codable {
        var id: String
        var name: String
    }

    /// The identity in the state folder; a new one if there is none yet.
    /// - Parameter name: a new name for the device; nil keeps its name, which at first is the host's.
    static func load(deviceFolder: String, name: String?) throws(UbiquityError) -> DeviceIdentity {
        let path = Path.join(deviceFolder, "device.json")
        let known = try StoredJSON.read(Stored.self, at: path)
        var generator = SourcedGenerator(SystemRandom())
        guard let id = known.map({ DeviceID(hex: $0.id) }) ?? DeviceID(using: &generator) else {
            throw UbiquityError(
                .invalid, "the file does not contain a device's identity", at: path, remedy: "repair or remove it")
        }
        let identity = DeviceIdentity(id: id, name: name ?? known?.name ?? ProcessHost.hostName)
        if identity.name != known?.name {
            try StoredJSON.write(Stored(id: identity.id.description, name: identity.name), at: path)
        }
        return identity
    }
}
