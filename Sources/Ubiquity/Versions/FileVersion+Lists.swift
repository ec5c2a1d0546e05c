import FoundationEssentials
import UbiquityControl
import UbiquityCore

// Lists a file's versions.
extension FileVersion {
    /// Returns the file's current version; nil if the file does not exist or is in no container.
    ///
    /// - Parameter url: The URL of the file.
    /// - Throws: `UbiquitousFileError`.
    public static func currentVersionOfItem(at url: URL) async throws -> FileVersion? {
        try await versions(of: url).first(where: \.isCurrent)
    }

    /// Returns all versions but the current one: unresolved conflicts, then earlier versions, newest first, as long as
    /// the cloud keeps them. While the cloud is unreachable, the list has the versions this device knows; it always has
    /// all conflicts.
    ///
    /// - Parameter url: The URL of the file.
    /// - Throws: `UbiquitousFileError`.
    public static func otherVersionsOfItem(at url: URL) async throws -> [FileVersion] {
        try await versions(of: url).filter { !$0.isCurrent }
    }

    /// Returns the conflict versions that need a decision.
    ///
    /// - Parameter url: The URL of the file.
    /// - Throws: `UbiquitousFileError`.
    public static func unresolvedConflictVersionsOfItem(at url: URL) async throws -> [FileVersion] {
        try await versions(of: url).filter { $0.isConflict && !$0.isResolved }
    }

    /// Returns the versions the cloud has. Reading one downloads its content.
    ///
    /// - Parameter url: The URL of the file.
    /// - Throws: `.ubiquitousFileUbiquityServerNotAvailable` while the cloud is unreachable.
    public static func nonlocalVersionsOfItem(at url: URL) async throws -> [FileVersion] {
        let report = try await report(of: url)
        if let reason = report?.incomplete {
            throw UbiquitousFileError(.ubiquitousFileUbiquityServerNotAvailable, reason)
        }
        return readable(report, of: url).filter { !$0.isCurrent && $0.isAvailable }
    }

    /// Returns the version with that identifier; nil if it no longer exists.
    ///
    /// - Parameter url: The URL of the file.
    /// - Parameter identifier: The persistent identifier of the version.
    /// - Throws: `UbiquitousFileError`.
    public static func version(
        ofItemAt url: URL, forPersistentIdentifier identifier: String
    ) async throws -> FileVersion? {
        try await versions(of: url).first { $0.persistentIdentifier == identifier }
    }

    /// Removes all conflict versions, which resolves the conflicts. Earlier versions stay; the cloud removes them after
    /// its retention time.
    ///
    /// - Parameter url: The URL of the file.
    /// - Throws: `UbiquitousFileError`.
    public static func removeOtherVersionsOfItem(at url: URL) async throws {
        for version in try await unresolvedConflictVersionsOfItem(at: url) { try await version.remove() }
    }

    private static func versions(of url: URL) async throws -> [FileVersion] {
        readable(try await report(of: url), of: url)
    }

    /// Resolved versions are no longer in the folder of versions.
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
                // The item does not exist, or has no versions.
                if let error = error as? UbiquityError, [.notFound, .invalid].contains(error.code) { return nil }
                throw error
            }
        }
    }
}
