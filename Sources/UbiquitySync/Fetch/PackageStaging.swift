internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// What the downloads ask of the packages: a package shows a new state when all of its newer contents are here.
protocol PackageStaging: AnyObject, Sendable {
    /// Keeps a complete content until its package can show it.
    /// - Returns: false if the item is in no package that waits.
    func stage(_ download: Download) throws -> Bool
    /// Whether a package keeps the content until it can show it.
    func isStaged(_ content: ContentID) -> Bool
    /// Shows the new state of each package whose newer contents are all here.
    func showReadyPackages() throws
    /// Waits until the item's package shows one state.
    func waitForPackage(of key: ItemKey) async throws
    /// Files of waiting packages whose newer content must be fetched now, at most `limit`.
    func wantedByPackages(_ reader: IndexReader, limit: Int) throws -> [ItemRow]
}

/// Leads from the downloads to the packages. It is bound once, when the engine is made.
final class PackageStagingLink: Sendable {
    private struct Target: Sendable { weak var packages: (any PackageStaging)? }

    private let target = Lock(Target())

    func bind(_ packages: any PackageStaging) { target.withLock { $0.packages = packages } }

    private var packages: (any PackageStaging)? { target.withLock { $0.packages } }

    func stage(_ download: Download) throws -> Bool { try packages?.stage(download) ?? false }

    func isStaged(_ content: ContentID) -> Bool { packages?.isStaged(content) ?? false }

    func showReadyPackages() throws { try packages?.showReadyPackages() }

    func waitForPackage(of key: ItemKey) async throws { try await packages?.waitForPackage(of: key) }

    func wantedByPackages(_ reader: IndexReader, limit: Int) throws -> [ItemRow] {
        try packages?.wantedByPackages(reader, limit: limit) ?? []
    }
}
