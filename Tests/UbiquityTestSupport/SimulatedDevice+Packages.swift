package import UbiquityCore
internal import UbiquityContent
internal import UbiquitySync
internal import UbiquitySystem

extension SimulatedDevice {
    /// Names and contents of the members in a version of a package (folders have no content).
    package func members(of version: RemoteVersion) async throws -> [String: [UInt8]] {
        var result: [String: [UInt8]] = [:]
        let engine = try engine
        for member in try await engine.versionDownloads.tree(of: version).members {
            let path = member.path.map(\.description).joined(separator: "/")
            result[path] = []
            guard let file = version.file(member) else { continue }
            let content = try await engine.begin(file)
            defer { engine.release(content) }
            try await engine.fill(content, 0..<content.size)
            result[path] = try content.file.read(count: Int(content.size), at: 0)
        }
        return result
    }
}
