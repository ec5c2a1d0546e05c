public import FoundationEssentials
import UbiquityCore
import UbiquitySystem

/// The place of a program's documents: a container of the cloud, or a plain folder with the same layout.
///
/// All classes of this library work in both. In a plain folder nothing is coordinated, no version is kept, and a query
/// looks for changes once a second.
///
/// Ask once, at the program's first start, and remember `isUbiquitous`: documents of one place do not move to the other
/// by themselves. `UbiquityFileManager.setUbiquitous` moves a document when the user decides anew.
///
/// - Source: this library; the local documents of the session "Advanced iCloud Document Storage" of 2012.
public struct UbiquityContainer: Hashable, Sendable {
    /// The container's top folder, or the plain folder.
    public let url: URL
    /// Whether the documents are in the cloud.
    public let isUbiquitous: Bool

    /// The folder of the documents that the user sees. `localOrUbiquitous` makes it.
    public var documentsURL: URL { url.appending(path: "Documents", directoryHint: .isDirectory) }

    /// A mounted container.
    ///
    /// - Parameter identifier: The container's name; nil for the container that was mounted first.
    /// - Returns: The container; nil if it is not mounted, or if nobody is signed in.
    public static func ubiquitous(_ identifier: String? = nil) async -> UbiquityContainer? {
        let manager = UbiquityFileManager.default
        guard let url = await manager.url(forUbiquityContainerIdentifier: identifier),
            manager.ubiquityIdentityToken(ofContainer: identifier) != nil
        else { return nil }
        return UbiquityContainer(url: url, isUbiquitous: true)
    }

    /// A plain folder, which is made if it does not exist.
    ///
    /// - Parameter folder: The folder; nil for a folder of the program's name in the user's data folder
    ///   (`$XDG_DATA_HOME`, else `~/.local/share`).
    /// - Throws: `UbiquitousFileError` if the folder cannot be made.
    public static func local(_ folder: URL? = nil) async throws -> UbiquityContainer {
        let path = folder?.systemPath ?? Path.join(Self.dataFolder, ProcessHost.programName)
        return try await mappingFileErrors(isWriting: true) {
            try await FileAccess.run {
                try describing("make the folder", at: path) { () throws(Errno) in
                    try FileSystem.makeDirectories(path)
                }
                return UbiquityContainer(url: URL(filePath: path, directoryHint: .isDirectory), isUbiquitous: false)
            }
        }
    }

    /// A mounted container, or else a plain folder. The folder `Documents` exists afterwards.
    ///
    /// - Parameters:
    ///   - identifier: The container's name; nil for the container that was mounted first.
    ///   - folder: The plain folder; nil for the usual one, as in `local`.
    /// - Throws: `UbiquitousFileError` if the folder cannot be made.
    public static func localOrUbiquitous(
        _ identifier: String? = nil, local folder: URL? = nil
    ) async throws -> UbiquityContainer {
        let place: UbiquityContainer
        if let mounted = await ubiquitous(identifier) { place = mounted } else { place = try await local(folder) }
        let documents = place.documentsURL.systemPath
        try await mappingFileErrors(isWriting: true) {
            try await FileAccess.run {
                try describing("make the folder", at: documents) { () throws(Errno) in
                    try FileSystem.makeDirectories(documents, mode: 0o755)
                }
            }
        }
        return place
    }

    /// By the specification of XDG a relative path in the variable is ignored.
    private static var dataFolder: String {
        if let base = ProcessHost.variable("XDG_DATA_HOME"), base.hasPrefix("/") { return base }
        return Path.join(ProcessHost.homeDirectory, ".local/share")
    }
}
