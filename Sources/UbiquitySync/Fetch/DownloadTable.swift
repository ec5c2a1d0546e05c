internal import UbiquityContent
internal import UbiquityCore
internal import UbiquitySystem

/// The downloads in progress, by item and by content.
final class DownloadTable: Sendable {
    private struct State {
        var byItem: [ItemKey: Download] = [:]
        var byContent: [ContentID: Download] = [:]
        var beginning: [ItemKey: DownloadBeginning] = [:]
        var lanes: [UInt64: Task<Void, Never>] = [:]
        var nextLane: UInt64 = 0
        var isStopped = false

        mutating func remove(_ download: Download) {
            byContent[download.content.id] = nil
            if byItem[download.key] === download { byItem[download.key] = nil }
        }
    }

    private let state = Lock(State())
    private let executor: (any TaskExecutor)?

    /// - Parameter executor: where lanes run. Nil means Swift's own threads.
    init(executor: (any TaskExecutor)?) { self.executor = executor }

    func download(of key: ItemKey) -> Download? { state.withLock { $0.byItem[key] } }
    func download(with content: ContentID) -> Download? { state.withLock { $0.byContent[content] } }

    /// Restores a download that was removed with its last reader while a new reader arrived.
    func keep(_ download: Download) {
        state.withLock { state in
            guard state.byContent[download.content.id] == nil, !download.content.isComplete else { return }
            state.byContent[download.content.id] = download
            if state.byItem[download.key] == nil { state.byItem[download.key] = download }
        }
    }

    /// - Returns: false if a reader wants it or a lane works on it.
    func removeUnwanted(_ download: Download) -> Bool {
        state.withLock { state in
            guard !download.isWanted, !download.hasLanes else { return false }
            state.remove(download)
            return true
        }
    }

    var all: [Download] { state.withLock { $0.byContent.sorted { $0.key < $1.key }.map(\.value) } }

    /// The beginning of the item's download, shared by concurrent callers.
    /// - Parameter unused: called with a download that nobody waits for any more.
    func beginning(
        _ key: ItemKey, unused: @escaping @Sendable (Download) -> Void,
        _ start: @escaping @Sendable () async throws -> Download
    ) -> DownloadBeginning {
        state.withLock { state in
            if let known = state.beginning[key] {
                known.join()
                return known
            }
            let beginning = DownloadBeginning()
            beginning.join()
            state.beginning[key] = beginning
            Task(executorPreference: executor) {
                do {
                    let download = try await start()
                    if !beginning.finish(.success(download)) { unused(download) }
                } catch {
                    beginning.finish(.failure(error))
                }
            }
            return beginning
        }
    }

    func ended(beginning key: ItemKey) { state.withLock { _ = $0.beginning.removeValue(forKey: key) } }

    func add(_ download: Download) {
        state.withLock {
            $0.byItem[download.key] = download
            $0.byContent[download.content.id] = download
        }
    }

    func remove(_ download: Download) { state.withLock { $0.remove(download) } }

    /// Runs a lane. `stopAll` cancels it.
    /// - Returns: false after `stopAll`, and then the lane does not run.
    @discardableResult
    func runLane(_ body: @escaping @Sendable () async -> Void) -> Bool {
        state.withLock { state in
            guard !state.isStopped else { return false }
            state.nextLane += 1
            let id = state.nextLane
            state.lanes[id] = Task(executorPreference: executor) {
                await body()
                self.state.withLock { _ = $0.lanes.removeValue(forKey: id) }
            }
            return true
        }
    }

    static let stopped = UbiquityError(.offline, "the mount is ending")

    /// Fails the waits of all downloads. A later reader tries anew.
    func failAll(_ error: UbiquityError) {
        for download in all { download.fail(error) }
    }

    func stopAll() {
        let (lanes, downloads) = state.withLock { state in
            state.isStopped = true
            return (state.lanes, state.byContent.sorted { $0.key < $1.key }.map(\.value))
        }
        for (_, task) in lanes.sorted(by: { $0.key < $1.key }) { task.cancel() }
        for download in downloads { download.fail(Self.stopped) }
    }
}
