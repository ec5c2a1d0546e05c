/// The rooms that fetch contents and keep space for them, built in the order of their dependencies.
///
/// `DownloadTable` has the downloads in progress. `DownloadLanes` fetches their chunks, `DownloadOpener` begins them.
/// `Downloader` serves programs, `BackgroundDownloads` fetches unasked, `VersionDownloads` fetches old versions.
/// `CacheSpace` says what fits and `Evictor` frees space.
package final class FetchRooms: Sendable {
    let downloads: DownloadTable
    /// Contents of old versions. They are kept while programs read them, and for a short time after.
    let versionContents = VersionContents()
    let packages: StagedPackages
    let evictor: Evictor
    package let space: CacheSpace
    package let downloader: Downloader
    let background: BackgroundDownloads
    package let inUse: ContentsInUse
    package let versions: VersionDownloads

    init(_ context: SyncContext, _ claims: PackageClaims, _ appVersions: AppVersions) {
        downloads = DownloadTable(executor: context.executor)
        packages = StagedPackages(context, claims, downloads)
        evictor = Evictor(context: context, downloads: downloads)
        space = CacheSpace(context, downloads, evictor)
        let lanes = DownloadLanes(
            context: context, downloads: downloads, space: space, versionContents: versionContents,
            packages: packages)
        let opener = DownloadOpener(
            context: context, downloads: downloads, space: space, lanes: lanes, packages: packages)
        background = BackgroundDownloads(context, downloads, space, lanes, opener, packages)
        downloader = Downloader(
            context: context, downloads: downloads, lanes: lanes, opener: opener, background: background,
            versionContents: versionContents)
        inUse = ContentsInUse(context, downloads, versionContents, packages)
        versions = VersionDownloads(
            context, downloads, lanes, downloader, versionContents, inUse, appVersions)
    }
}
