import FoundationEssentials
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// The ubiquity methods of `FileManager`: containers, the account's identity, moving items into and out of a container,
/// download and eviction.
///
/// All errors are `UbiquitousFileError`.
///
/// - Source: the ubiquity methods of `FileManager`.
public struct UbiquityFileManager: Sendable {
    /// The instance for this program.
    public static let `default` = UbiquityFileManager()

    /// Identifies the program to `ubiquityIdentityToken`.
    public let applicationIdentifier: String

    /// Makes an instance for this program, with the name of its executable as its identifier.
    public init() { self.init(applicationIdentifier: ProcessHost.programName) }

    /// Makes an instance for a program that chooses its identifier. Programs that share one get equal tokens.
    ///
    /// - Parameter applicationIdentifier: For example `org.example.notes`.
    public init(applicationIdentifier: String) { self.applicationIdentifier = applicationIdentifier }

    // MARK: Containers

    /// Returns where a container is mounted; nil if it is not. Documents belong in its folder `Documents`; the first
    /// program that needs the folder makes it.
    ///
    /// - Parameter identifier: The container's name; nil for the container that was mounted first.
    public func url(forUbiquityContainerIdentifier identifier: String? = nil) async -> URL? {
        // If the mount table cannot be read, or the pool has no free thread, no container is found.
        let mount = try? await ItemThreads.pool.run { try Containers.mounted(identifier) }
        return mount.map { URL(filePath: $0.mountPoint) }
    }

    /// Returns the mount point of the container that holds a URL; nil if there is none.
    ///
    /// - Parameter url: The URL of the item.
    /// - Throws: `UbiquitousFileError`.
    public func url(forUbiquityContainerOf url: URL) throws -> URL? {
        try Self.mapping(isWriting: false) {
            try MountFinder.find(url.path).map { URL(filePath: String(decoding: $0.mountPoint, as: UTF8.self)) }
        }
    }

    /// Returns whether an item is meant for the cloud, uploaded or not. False if the item does not exist.
    ///
    /// - Parameter url: The URL of the item.
    public func isUbiquitousItem(at url: URL) -> Bool {
        (try? UbiquitousItem(at: url).resourceValues(forKeys: [.isUbiquitousItem]))?.isUbiquitousItem ?? false
    }

    // MARK: Identity

    /// The identity signed in to the container that was mounted first; nil if nobody is signed in, documents are off,
    /// or nothing is mounted. The token is a keyed hash of the account for this program and this device. The call reads
    /// small files only. It takes less than a millisecond, also while the mount's daemon is stopped.
    public var ubiquityIdentityToken: UbiquityIdentityToken? { ubiquityIdentityToken(ofContainer: nil) }

    /// The identity signed in to a container; nil if nobody is signed in, documents are off, or it is not mounted.
    ///
    /// - Parameter identifier: The name of the container; nil for the one that was mounted first.
    public func ubiquityIdentityToken(ofContainer identifier: String?) -> UbiquityIdentityToken? {
        (try? Containers.listed(identifier)).flatMap { Containers.token(of: $0, for: applicationIdentifier) }
    }

    /// The current token, then every other token that follows: somebody signs in or out, or the mount starts or ends.
    ///
    /// - Parameter identifier: The name of the container; nil for the one that was mounted first.
    public func ubiquityIdentityChanges(ofContainer identifier: String? = nil) -> AsyncStream<UbiquityIdentityToken?> {
        // A slow reader gets only the newest token.
        let (stream, source) = AsyncStream.makeStream(
            of: UbiquityIdentityToken?.self, bufferingPolicy: .bufferingNewest(1))
        let watch = IdentityWatch(identifier: identifier, application: applicationIdentifier, source: source)
        let task = Task { await watch.run() }
        source.onTermination = { _ in task.cancel() }
        return stream
    }

    // MARK: Items

    /// Moves an item into a container, or out of it. The destination's folder must exist and the name must be free.
    /// Presenters of the item are asked to release it. An item without local content is downloaded before it leaves.
    /// The call lasts as long as the download and a copy.
    ///
    /// - Parameter url: The URL of the item.
    /// - Parameter destinationURL: The URL after the move.
    /// - Throws: `UbiquitousFileError`.
    /// - Parameter isUbiquitous: True to move the item into a container, false to move it out.
    public func setUbiquitous(_ isUbiquitous: Bool, itemAt url: URL, destinationURL: URL) async throws {
        try await Self.mapping(isWriting: true) {
            try await ItemThreads.pool.run { try Self.check(isUbiquitous, url, destinationURL) }
            let coordinator = FileCoordinator()
            try await coordinator.coordinate(
                writingItemAt: url, options: .forMoving, writingItemAt: destinationURL, options: .forReplacing
            ) { source, destination in
                try await coordinator.item(at: source, willMoveTo: destination)
                try await ItemThreads.pool.run { try ItemMover.move(source.path, to: destination.path) }
                try await coordinator.item(at: source, didMoveTo: destination)
            }
        }
    }

    private static func check(_ isUbiquitous: Bool, _ url: URL, _ destination: URL) throws {
        let values = try UbiquitousItem(at: url).resourceValues(forKeys: [.isUbiquitousItem])
        guard values.isUbiquitousItem != isUbiquitous else {
            throw UbiquitousFileError(
                isUbiquitous ? .fileWriteFileExists : .featureUnsupported,
                "the item is \(isUbiquitous ? "ubiquitous already" : "not ubiquitous") (\(url.path))")
        }
        let folder = URL(filePath: Path.parent(of: destination.path))
        let target = try UbiquitousItem(at: folder).resourceValues(forKeys: [.isUbiquitousItem])
        guard target.isUbiquitousItem == isUbiquitous else {
            throw UbiquitousFileError(
                .fileWriteInvalidFileName,
                "the destination is \(isUbiquitous ? "in no container" : "in a container") (\(destination.path))")
        }
    }

    /// Starts to download or update an item's content, or everything in a folder. Returns at once.
    ///
    /// - Parameter url: The URL of the item.
    /// - Throws: `UbiquitousFileError`.
    public func startDownloadingUbiquitousItem(at url: URL) async throws {
        try await Self.mapping(isWriting: false) {
            _ = try MountFinder.locate(url.path)
            try await ItemThreads.pool.run {
                try describing("start the download", at: url.path) { () throws(Errno) in
                    try FileSystem.setXattr(url.path, ControlAttribute.download.attribute, [UInt8(ascii: "1")])
                }
            }
        }
    }

    /// Removes an item's content, or that of everything in a folder, from this device; the cloud keeps it. In a folder,
    /// every item that can be evicted is evicted; then the first refusal is thrown. Do not call it inside a coordinated
    /// write of the item.
    ///
    /// - Parameter url: The URL of the item.
    /// - Throws: `.fileLocking` if the item is open, changed, or kept by a presenter; `.fileWriteNoPermission` if it is
    ///   pinned or was never uploaded.
    public func evictUbiquitousItem(at url: URL) async throws {
        try await Self.mapping(isWriting: true) {
            let place = try MountFinder.locate(url.path)
            let connection = try DaemonConnection(stateFolder: String(decoding: place.stateFolder, as: UTF8.self))
            var refusal: ControlFailure?
            do {
                let path = String(decoding: place.relativePath, as: UTF8.self)
                try await connection.act(ControlRoute.evict, on: [path]) { refusal = refusal ?? $0.error }
            } catch {
                await connection.close()
                throw error
            }
            await connection.close()
            if let refusal { throw refusal.error }
        }
    }

    // MARK: Sync of one file

    /// Pauses the sync of a file: its content is neither sent nor replaced until `resumeSyncForUbiquitousItem`, also
    /// after the program's end. Names, moves and deletions travel.
    ///
    /// - Parameter url: The URL of the file.
    /// - Throws: `.featureUnsupported` for a folder or an excluded file.
    public func pauseSyncForUbiquitousItem(at url: URL) async throws {
        _ = try await SyncControlCall(url).perform(.pause)
    }

    /// Resumes the sync of a paused file.
    ///
    /// - Parameter url: The URL of the file.
    /// - Parameter behavior: The fate of changes on both sides.
    /// - Throws: `.localVersionConflictingWithServer`; the file stays paused then.
    public func resumeSyncForUbiquitousItem(
        at url: URL, with behavior: ResumeSyncBehavior = .preserveLocalChanges
    ) async throws {
        let call = SyncControlCall(url)
        switch behavior {
        case .preserveLocalChanges: _ = try await call.perform(.resume)
        case .afterUploadWithFailOnConflict:
            _ = try await call.perform(.upload, failsOnConflict: true)
            _ = try await call.perform(.resume)
        case .dropLocalChanges:
            let version = try await fetchLatestRemoteVersionOfItem(at: url)
            try await FileCoordinator().coordinate(writingItemAt: url) { _ = try await version.replaceItem(at: $0) }
            _ = try await call.perform(.resume)
        }
    }

    /// Fetches the cloud's present version of a file beside it, for example to merge it into a paused file. Read it
    /// with `contents()` of the version.
    ///
    /// - Parameter url: The URL of the file.
    /// - Throws: `.ubiquitousFileUbiquityServerNotAvailable`, `.ubiquitousFileUnavailable` if it is not uploaded yet,
    ///   `.fileNoSuchFile` if the cloud does not have the file.
    public func fetchLatestRemoteVersionOfItem(at url: URL) async throws -> FileVersion {
        try await SyncControlCall(url).perform(.fetch).version
    }

    /// Uploads a file's content, also that of a paused file, and returns when the cloud has it.
    ///
    /// - Parameter url: The URL of the file.
    /// - Parameter policy: Whether a conflict fails the upload instead of making a conflict version.
    /// - Returns: The version at the cloud.
    /// - Throws: `.localVersionConflictingWithServer`, `.ubiquitousFileUbiquityServerNotAvailable`,
    ///   `.ubiquitousFileNotUploadedDueToQuota`.
    @discardableResult
    public func uploadLocalVersionOfUbiquitousItem(
        at url: URL, withConflictResolutionPolicy policy: UploadConflictPolicy = .default
    ) async throws -> FileVersion {
        try await SyncControlCall(url).perform(.upload, failsOnConflict: policy == .failOnConflict).version
    }

    /// The fate of changes on both sides when the sync of a file is resumed.
    public enum ResumeSyncBehavior: Int, Hashable, Sendable {
        /// Local changes are sent. A change on both sides makes a conflict version.
        case preserveLocalChanges = 0
        /// Local changes are sent first. If the cloud has changes too, nothing is done.
        case afterUploadWithFailOnConflict = 1
        /// The cloud's version replaces the local one.
        case dropLocalChanges = 2
    }

    /// How an upload treats a conflict.
    public enum UploadConflictPolicy: Int, Hashable, Sendable {
        /// A conflict makes a conflict version.
        case `default` = 0
        /// A conflict fails the upload.
        case failOnConflict = 1
    }

    private static func mapping<Result>(isWriting: Bool, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch { throw UbiquitousFileError.from(error, isWriting: isWriting) }
    }

    private static func mapping(isWriting: Bool, _ body: () async throws -> Void) async throws {
        do { try await body() } catch { throw UbiquitousFileError.from(error, isWriting: isWriting) }
    }
}
