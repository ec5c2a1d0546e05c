import FoundationEssentials
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// One request about the sync of a file.
struct SyncControlCall: Sendable {
    /// The answer to a request.
    struct Outcome: Sendable {
        fileprivate let report: VersionReport?
        fileprivate let contents: URL?
        fileprivate let file: URL

        var version: FileVersion {
            get throws {
                guard let report else {
                    throw UbiquitousFileError(.fileNoSuchFile, "the cloud does not have the file: \(file.path)")
                }
                return FileVersion(report, of: file, contents: contents)
            }
        }
    }

    private let url: URL

    init(_ url: URL) { self.url = url }

    func perform(_ action: SyncControlRequest.Action, failsOnConflict: Bool = false) async throws -> Outcome {
        try await mappingFileErrors(isWriting: action != .fetch) {
            let place = try MountFinder.locate(url.systemPath)
            let stateFolder = String(decoding: place.stateFolder, as: UTF8.self)
            let connection = try DaemonConnection(stateFolder: stateFolder)
            let wanted = SyncControlRequest(
                path: String(decoding: place.relativePath, as: UTF8.self), action: action,
                failsOnConflict: failsOnConflict ? true : nil)
            let report: SyncControlReport
            do {
                report = try await connection.ask(ControlRoute.syncControl, wanted)
                await connection.close()
            } catch {
                await connection.close()
                throw error
            }
            guard !report.isConflict else {
                throw UbiquitousFileError(
                    .localVersionConflictingWithServer,
                    "another device has changed the file since; fetch the latest version and merge: \(url.path)")
            }
            let folder = Path.join(stateFolder, ControlRoute.incomingName)
            let contents = report.content.map {
                URL(filePath: Path.join(folder, $0), directoryHint: .notDirectory)
            }
            return Outcome(report: report.version, contents: contents, file: url)
        }
    }
}
