import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Whether a file's content is on this device.
enum DownloadState {
    private static let attribute = StatusAttribute.downloadingStatus.attribute

    /// Returns whether a file's content is missing here. False for a path that is in no container, not a file, or
    /// absent. Blocks.
    static func isMissing(_ path: String) throws -> Bool {
        guard let status = try? FileSystem.statusFollowing(path), status.isFile, status.size > 0 else { return false }
        let value = try? FileSystem.xattr(path, attribute)
        return value.map { String(decoding: $0, as: UTF8.self) == ItemReport.DownloadingStatus.notDownloaded.rawValue }
            ?? false
    }

    /// Downloads a file and waits for the whole content.
    static func download(_ path: String) async throws {
        let location = try MountFinder.locate(path)
        let connection = try DaemonConnection(stateFolder: String(decoding: location.stateFolder, as: UTF8.self))
        var failure: UbiquityError?
        do {
            let item = String(decoding: location.relativePath, as: UTF8.self)
            try await connection.act(ControlRoute.download, on: [item]) { failure = $0.error?.error }
            await connection.close()
        } catch {
            await connection.close()
            throw error
        }
        if let failure { throw failure }
    }
}
