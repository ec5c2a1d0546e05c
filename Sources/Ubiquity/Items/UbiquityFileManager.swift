import FoundationEssentials
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// What `FileManager` does with ubiquitous items on other systems: containers, who is signed in, and items that enter
/// and leave a container, or this device.
///
/// Errors are `UbiquitousFileError`.
public struct UbiquityFileManager: Sendable {
    public static let `default` = UbiquityFileManager()

    public init() {}

    // MARK: Containers

    /// Where a container is mounted; nil if it is not. Documents belong in its folder `Documents`, which is made by
    /// whoever first needs it.
    /// - Parameter identifier: its name; nil: of the container that was mounted first.
    public func url(forUbiquityContainerIdentifier identifier: String? = nil) async -> URL? {
        // Without a place in the pool, or with a table that cannot be read, there is none to be found.
        let mount = try? await ItemThreads.pool.run { try Containers.mounted(identifier) }
        return mount.map { URL(filePath: $0.mountPoint) }
    }

    /// The mount point of the container that a place is in; nil if it is in none.
    public func url(forUbiquityContainerOf url: URL) throws -> URL? {
        try Self.mapping(isWriting: false) {
            try MountFinder.find(url.path).map { URL(filePath: String(decoding: $0.mountPoint, as: UTF8.self)) }
        }
    }

    /// Whether an item is meant for the cloud, uploaded or not. False if there is none.
    public func isUbiquitousItem(at url: URL) -> Bool {
        (try? UbiquitousItem(at: url).resourceValues(forKeys: [.isUbiquitousItem]))?.isUbiquitousItem ?? false
    }

    // MARK: Identity

    /// Who is signed in, of the container that was mounted first; nil if nobody is, or nothing is mounted. It asks
    /// neither the disk nor the network.
    public var ubiquityIdentityToken: UbiquityIdentityToken? { ubiquityIdentityToken(ofContainer: nil) }

    public func ubiquityIdentityToken(ofContainer identifier: String?) -> UbiquityIdentityToken? {
        (try? Containers.mounted(identifier)).flatMap(Containers.token)
    }

    /// The token as it is now, and then each time it is another: somebody has signed in or out, or the mount has come
    /// or gone.
    public func ubiquityIdentityChanges(ofContainer identifier: String? = nil) -> AsyncStream<UbiquityIdentityToken?> {
        // A reader that is slow is told the last.
        let (stream, source) = AsyncStream.makeStream(
            of: UbiquityIdentityToken?.self, bufferingPolicy: .bufferingNewest(1))
        let watch = IdentityWatch(identifier: identifier, source: source)
        let task = Task { await watch.run() }
        source.onTermination = { _ in task.cancel() }
        return stream
    }

    // MARK: Items

    /// Moves an item into a container, or out of it. The folder it goes to must be there, and its name free. Others who
    /// use the item are asked to let go of it; an item that is not here is downloaded before it leaves. It takes as
    /// long as that and a copy take.
    /// - Parameter isUbiquitous: whether it is to be in a container.
    public func setUbiquitous(_ isUbiquitous: Bool, itemAt url: URL, destinationURL: URL) async throws {
        try await Self.mapping(isWriting: true) {
            try await ItemThreads.pool.run { try Self.check(isUbiquitous, url, destinationURL) }
            try await FileCoordinator().coordinate(
                writingItemAt: url, options: .forMoving, writingItemAt: destinationURL, options: .forReplacing
            ) { source, destination in
                try await ItemThreads.pool.run { try ItemMover.move(source.path, to: destination.path) }
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

    /// Has an item's content, or that of all in a folder, downloaded, or brought up to date; returns at once.
    public func startDownloadingUbiquitousItem(at url: URL) async throws {
        try await Self.mapping(isWriting: false) {
            _ = try MountFinder.locate(url.path)
            try await ItemThreads.pool.run {
                try describing("start the download", at: url.path) { () throws(Errno) in
                    try FileSystem.setXattr(url.path, "user.ubiquity.download", [UInt8(ascii: "1")])
                }
            }
        }
    }

    /// Removes an item's content, or that of all in a folder, from this device; the cloud keeps it. Throws
    /// `.fileLocking` for what is open, changed or refused by a presenter, `.fileWriteNoPermission` for what is pinned
    /// or has never been uploaded. All of a folder that can be evicted is; then the first refusal is thrown.
    /// Not to be called inside a coordinated write of the item.
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

    private static func mapping<Result>(isWriting: Bool, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch { throw UbiquitousFileError.from(error, isWriting: isWriting) }
    }

    private static func mapping(isWriting: Bool, _ body: () async throws -> Void) async throws {
        do { try await body() } catch { throw UbiquitousFileError.from(error, isWriting: isWriting) }
    }
}
