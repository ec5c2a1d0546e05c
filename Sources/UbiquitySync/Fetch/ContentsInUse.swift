internal import UbiquityContent
package import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Contents that no item references and that are in use all the same. No sweep or examination takes them for leftovers.
///
/// It holds the contents under construction. Recovery and the doctor ask it.
package final class ContentsInUse: SyncRoom {
    package let context: SyncContext
    private let downloads: DownloadTable
    private let versionContents: VersionContents
    private let packages: StagedPackages
    /// New contents whose item does not reference them yet, or has begun to.
    private let made = Lock<Set<ContentID>>([])

    init(
        _ context: SyncContext, _ downloads: DownloadTable, _ versionContents: VersionContents,
        _ packages: StagedPackages
    ) {
        self.context = context
        self.downloads = downloads
        self.versionContents = versionContents
        self.packages = packages
    }

    package func contains(_ content: ContentID) -> Bool {
        downloads.download(with: content) != nil || versionContents.contains(content)
            || made.withLock { $0.contains(content) }
            || openItems?.isUnnamed(content) ?? false
            || packages.isStaged(content)
    }

    /// Records a content under construction that no item references yet, so that no examination takes it for a
    /// leftover.
    package func recordMade(_ content: ContentID) {
        let isFull = made.withLock { made in
            made.insert(content)
            return made.count % SyncLimits.madeContents == 0
        }
        guard isFull else { return }
        // Contents that an item references by now, or that are removed, need not be tracked.
        let known = made.withLock { $0 }
        let over = known.filter { id in
            (try? store.status(of: id) == nil) ?? false || (try? index.read { try $0.row(content: id) } != nil) ?? false
        }
        made.withLock { $0.subtract(over.subtracting([content])) }
    }
}
