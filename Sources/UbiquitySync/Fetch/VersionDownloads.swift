package import UbiquityContent
package import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Downloads the contents of versions that are not the current ones, and the member lists of packages' versions.
///
/// It holds the recently read lists. The file system and the commands of versions call it. It knows the downloader,
/// which fills and releases its contents like any other.
package final class VersionDownloads: SyncRoom {
    package let context: SyncContext
    private let downloads: DownloadTable
    private let lanes: DownloadLanes
    private let downloader: Downloader
    private let contents: VersionContents
    private let inUse: ContentsInUse
    private let appVersions: AppVersions
    private let trees = PackageTrees()

    private var placement: ContentPlacement { ContentPlacement(context: context) }

    init(
        _ context: SyncContext, _ downloads: DownloadTable, _ lanes: DownloadLanes, _ downloader: Downloader,
        _ contents: VersionContents, _ inUse: ContentsInUse, _ appVersions: AppVersions
    ) {
        self.context = context
        self.downloads = downloads
        self.lanes = lanes
        self.downloader = downloader
        self.contents = contents
        self.inUse = inUse
        self.appVersions = appVersions
    }

    /// Begins or joins the download of a version's content. Release it with `release`, like any download.
    package func begin(_ version: RemoteVersion) async throws -> PartialContent {
        if appVersions.version(version.id) != nil,
            let own = try await pool.run({ [self] in try appContent(version.id) })
        {
            return own
        }
        if let content = contents.use(version.id) { return resumed(content, version) }
        let manifest = try await manifest(of: version.content)
        let made = try await pool.run { [self] in try placement.newContent(manifest, size: version.content.size) }
        let content = contents.add(made, of: version.id)
        if content !== made { discard([made.id]) }
        return resumed(content, version)
    }

    /// The content of a version that a program on this device has added; nil for other versions.
    private func appContent(_ version: VersionID) throws -> PartialContent? {
        guard let file = try appVersions.open(version) else { return nil }
        return try PartialContent(id: ContentID(try index.newContentNumber()), whole: file)
    }

    /// Starts or joins the download of an incomplete content.
    private func resumed(_ content: PartialContent, _ version: RemoteVersion) -> PartialContent {
        guard !content.isComplete else { return content }
        if let running = downloads.download(with: content.id) {
            running.addOpener()
            lanes.start(running)
            return content
        }
        // No item has this key, so the end of the download changes none.
        let download = Download(
            key: ItemKey(-content.id.rawValue), version: version.id, content: content, isReplacement: false)
        downloads.add(download)
        download.addOpener()
        lanes.start(download)
        return content
    }

    /// Waits until a version is downloaded, and returns a copy of its content. The caller owns the copy.
    package func copy(_ version: RemoteVersion) async throws -> ContentID {
        let content = try await begin(version)
        defer { downloader.release(content) }
        try await downloader.fill(content, 0..<content.size)
        return try await pool.run { [index, store] in
            let id = ContentID(try index.newContentNumber())
            self.inUse.recordMade(id)
            do {
                if self.appVersions.version(version.id) != nil {
                    let copy = try store.create(id)
                    _ = try describing("copy a version", at: "content \(id)") { () throws(Errno) in
                        try copy.copy(from: content.file, at: 0, to: 0, count: content.size)
                    }
                } else {
                    _ = try store.duplicate(content.id, as: id)
                }
            } catch {
                // On a full disk a part of the copy would remain.
                try? store.remove(id)
                throw error
            }
            return id
        }
    }

    /// The members of a package's version. Downloads the list once.
    /// - Throws: the errors of a download, and `.damaged` for an invalid list.
    package func tree(of version: RemoteVersion) async throws -> PackageTree {
        if let known = trees.tree(of: version.id) { return known }
        let content = try await begin(version)
        defer { downloader.release(content) }
        let head = Int64(PackageTree.headLength)
        try await downloader.fill(content, 0..<min(head, content.size))
        let length = try PackageTree.listLength(try content.file.read(count: PackageTree.headLength, at: 0))
        let end = head + Int64(length)
        guard end <= content.size else { throw UbiquityError(.damaged, "a package's list is longer than its version") }
        try await downloader.fill(content, 0..<end)
        let tree = try PackageTree(list: content.file.read(count: length, at: head), content.manifest)
        trees.keep(tree, of: version.id)
        return tree
    }
}
