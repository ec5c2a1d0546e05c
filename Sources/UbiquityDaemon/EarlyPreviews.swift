import Logging
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem

/// Requests the download of small previews as soon as they are listed, whatever the mount's policy.
///
/// A preview is a file in the container's folder of previews (`Previews` by default) of at most 64 KiB. A program shows
/// it instead of its document, which need not be downloaded for a list. Evicted previews are not requested again until
/// they change.
final class EarlyPreviews: Sendable {
    /// The configuration of previews.
    struct Rule: Hashable, Sendable {
        static let standardFolder = "Previews"
        static let standardLimit: Int64 = 64 * 1024

        /// A folder at the container's root; nil requests nothing.
        var folder: ItemName?
        /// In bytes; larger files are not requested.
        var limit: Int64
    }

    private let rule: Rule
    private let index: ItemIndex
    private let engine: SyncEngine
    private let logger: Logger
    /// One thread: requests are made in the order of the listing.
    private let pool = BlockingPool(name: "previews", threads: 1)
    /// Folders deeper than this are not previews.
    private static let maximumDepth = Limits.maximumDepth
    /// Files examined at the start of a mount.
    private static let maximumAtStart = 100_000

    init(_ rule: Rule, _ index: ItemIndex, _ engine: SyncEngine, _ logger: Logger) {
        self.rule = rule
        self.index = index
        self.engine = engine
        self.logger = logger
        guard rule.folder != nil else { return }
        index.observe { [weak self] events in self?.examine(events) }
    }

    /// Requests the previews that the last run listed and did not request.
    func start() {
        guard let folder = rule.folder else { return }
        _ = pool.start { [self] in
            do {
                guard let top = try index.child(of: .root, named: folder), top.kind == .directory else { return }
                var folders = [top.key], wanted = [ItemKey](), examined = 0
                while let next = folders.popLast(), examined < Self.maximumAtStart {
                    let rows = try index.read { try $0.children(of: next, after: nil, limit: Self.maximumAtStart) }
                    examined += rows.count
                    folders += rows.filter { $0.kind == .directory }.map(\.key)
                    // A file that was here once was evicted on purpose.
                    wanted += rows.filter { isSmall($0) && $0.version == nil }.map(\.key)
                }
                request(wanted)
            } catch {
                logger.warning("cannot look for previews", metadata: ["error": "\(error)"])
            }
        }
    }

    /// Runs on the committing thread: it only enqueues.
    private func examine(_ events: [IndexEvent]) {
        let rows = events.filter { $0.origin == .remote && Self.isNew($0) }.compactMap(\.after).filter(isSmall)
        guard !rows.isEmpty else { return }
        // If the queue is full, the next start requests the previews.
        _ = pool.start { [self] in request(rows.filter { isPreview($0) }.map(\.key)) }
    }

    private static func isNew(_ event: IndexEvent) -> Bool {
        guard let before = event.before, let after = event.after else { return event.before == nil }
        return before.size != after.size || before.modifiedAt != after.modifiedAt || before.entry != after.entry
    }

    private func isSmall(_ row: ItemRow) -> Bool {
        row.kind == .file && !row.isDeleted && row.size > 0 && row.size <= rule.limit && row.contentState == .none
    }

    private func isPreview(_ row: ItemRow) -> Bool {
        var entry = row.entry
        for _ in 0..<Self.maximumDepth {
            guard let place = entry, place.parent != .root else { return false }
            // A folder that cannot be read was removed.
            guard let folder = try? index.row(key: place.parent), let above = folder.entry else { return false }
            if above.parent == .root { return above.name == rule.folder }
            entry = above
        }
        return false
    }

    private func request(_ keys: [ItemKey]) {
        guard !keys.isEmpty else { return }
        Task { [engine, logger] in
            for key in keys {
                do { try await engine.downloader.requestPersistently(key) } catch {
                    // A preview deleted meanwhile is not needed.
                    logger.debug("a preview is not requested", metadata: ["item": "\(key)", "error": "\(error)"])
                }
            }
        }
    }
}
