import FoundationEssentials
import UbiquityControl
import UbiquityCore

// Which versions a file has.
extension FileVersion {
    /// The version that stands at the file's place; nil if there is no such file, or it is in no container.
    public static func currentVersionOfItem(at url: URL) async throws -> FileVersion? {
        try await versions(of: url).first(where: \.isCurrent)
    }

    /// All but the current one: unresolved conflicts, then earlier ones from the newest back, for as long as the cloud
    /// keeps them. While the cloud is away, what this device knows: always all conflicts.
    public static func otherVersionsOfItem(at url: URL) async throws -> [FileVersion] {
        try await versions(of: url).filter { !$0.isCurrent }
    }

    /// Those that somebody has to decide about.
    public static func unresolvedConflictVersionsOfItem(at url: URL) async throws -> [FileVersion] {
        try await versions(of: url).filter { $0.isConflict && !$0.isResolved }
    }

    /// Those that the cloud has, with contents that come from there when they are read.
    /// - Throws: `.ubiquitousFileUbiquityServerNotAvailable` while the cloud is away.
    public static func nonlocalVersionsOfItem(at url: URL) async throws -> [FileVersion] {
        let report = try await report(of: url)
        if let reason = report?.incomplete {
            throw UbiquitousFileError(.ubiquitousFileUbiquityServerNotAvailable, reason)
        }
        return readable(report, of: url).filter { !$0.isCurrent && $0.isAvailable }
    }

    /// The version of that identifier; nil if it does not exist any more.
    public static func version(
        ofItemAt url: URL, forPersistentIdentifier identifier: String
    ) async throws -> FileVersion? {
        try await versions(of: url).first { $0.persistentIdentifier == identifier }
    }

    /// Removes all conflict versions, which resolves the conflicts. Earlier versions stay: the cloud keeps them for
    /// their time.
    public static func removeOtherVersionsOfItem(at url: URL) async throws {
        for version in try await unresolvedConflictVersionsOfItem(at: url) { try await version.remove() }
    }

    private static func versions(of url: URL) async throws -> [FileVersion] {
        readable(try await report(of: url), of: url)
    }

    /// Resolved ones do not stand in the folder of versions any more.
    private static func readable(_ report: VersionsReport?, of url: URL) -> [FileVersion] {
        (report?.versions ?? []).filter { $0.kind == .current || $0.name != nil }.map { FileVersion($0, of: url) }
    }

    private static func report(of url: URL) async throws -> VersionsReport? {
        try await mappingFileErrors(isWriting: false) {
            let absolute = try MountFinder.absolute(url.systemPath)
            guard let found = try MountFinder.resolver(MountFinder.table()).locate(absolute) else { return nil }
            let connection = try DaemonConnection(stateFolder: String(decoding: found.stateFolder, as: UTF8.self))
            do {
                let path = String(decoding: found.relativePath, as: UTF8.self)
                let report: VersionsReport = try await connection.ask(
                    ControlRoute.versions, PathsRequest(paths: [path]))
                await connection.close()
                return report
            } catch {
                await connection.close()
                // Nothing is there, or something of which there are no versions.
                if let error = error as? UbiquityError, [.notFound, .invalid].contains(error.code) { return nil }
                throw error
            }
        }
    }
}
