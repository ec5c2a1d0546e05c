internal import UbiquityContent
internal import UbiquityCore
internal import UbiquitySystem

/// The download of one content: its readers, what they want, and the requests in flight.
///
/// Ranges that readers wait for come first. While a program has the content open, or the whole is wanted, the remaining
/// chunks follow in order from the last reader's position.
final class Download: Sendable {
    let key: ItemKey
    let version: VersionID
    let content: PartialContent
    /// Whether the item shows an older content, which this one replaces when it is complete.
    let isReplacement: Bool

    private struct Waiter {
        var range: Range<Int64>
        var continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var openers = 0
        var isBackground = false
        var waiters: [UInt64: Waiter] = [:]
        var cancelled: Set<UInt64> = []
        var nextWaiter: UInt64 = 0
        var claimed: Set<Int> = []
        /// The chunk index of the last reader. The remaining chunks are fetched from there.
        var position = 0
        var lanes = 0
        var lastBatchBytes = 0
        var isFinished = false
        var isOutOfSpace = false
    }

    private let state = Lock(State())

    init(key: ItemKey, version: VersionID, content: PartialContent, isReplacement: Bool) {
        self.key = key
        self.version = version
        self.content = content
        self.isReplacement = isReplacement
    }

    // MARK: Interest

    func addOpener() { state.withLock { $0.openers += 1 } }

    func removeOpener() { state.withLock { $0.openers = max(0, $0.openers - 1) } }

    func setBackground() { state.withLock { $0.isBackground = true } }

    func clearBackground() { state.withLock { $0.isBackground = false } }

    var isWanted: Bool { state.withLock { $0.openers > 0 || $0.isBackground || !$0.waiters.isEmpty } }
    /// Whether a program reads the content or has it open.
    var isInUse: Bool { state.withLock { $0.openers > 0 || !$0.waiters.isEmpty } }
    var hasReaders: Bool { state.withLock { !$0.waiters.isEmpty } }
    var isBackground: Bool { state.withLock { $0.isBackground } }

    /// Records that the disk was full.
    func recordNoSpace() { state.withLock { $0.isOutOfSpace = true } }

    /// Records that the disk has space again.
    func recordSpace() { state.withLock { $0.isOutOfSpace = false } }

    /// Whether the partial content is useless once unwanted. Either the disk has no space for the remaining chunks, or
    /// it is a replacement, which the index does not record before it is complete.
    var isForNothing: Bool { state.withLock { !$0.isFinished && ($0.isOutOfSpace || isReplacement) } }

    /// Waits until the range is present.
    /// - Parameter onWait: called when the wait is registered. A failure from then on ends the wait.
    /// - Throws: the error that failed the download, or `CancellationError`.
    func wait(for range: Range<Int64>, onWait: () -> Void) async throws {
        let id = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                let isCancelled = state.withLock { state in
                    if state.cancelled.remove(id) != nil { return true }
                    state.waiters[id] = Waiter(range: range, continuation: continuation)
                    return false
                }
                if isCancelled { return continuation.resume(throwing: CancellationError()) }
                onWait()
                // The range may have arrived between the caller's check and now.
                wakeReaders()
            }
        } onCancel: {
            let waiter = state.withLock { state in
                let waiter = state.waiters.removeValue(forKey: id)
                if waiter == nil { state.cancelled.insert(id) }
                return waiter
            }
            waiter?.continuation.resume(throwing: CancellationError())
        }
    }

    /// Resumes the readers whose ranges are present.
    func wakeReaders() {
        let ready = state.withLock { state in
            let ready = state.waiters.filter { content.contains($0.value.range) }
            for id in ready.keys { state.waiters[id] = nil }
            return ready
        }
        for (_, waiter) in ready.sorted(by: { $0.key < $1.key }) { waiter.continuation.resume() }
    }

    /// Ends all waits with an error. A later reader tries anew.
    func fail(_ error: any Error) {
        let waiters = state.withLock { state in
            defer { state.waiters = [:] }
            return state.waiters
        }
        for (_, waiter) in waiters.sorted(by: { $0.key < $1.key }) { waiter.continuation.resume(throwing: error) }
    }

    // MARK: Work

    /// Whether one more lane may fetch. The lane must call `leaveLane` when it ends.
    func enterLane(limit: Int) -> Bool {
        state.withLock { state in
            guard !state.isFinished, state.lanes < limit else { return false }
            state.lanes += 1
            return true
        }
    }

    func leaveLane() { state.withLock { $0.lanes -= 1 } }

    var hasLanes: Bool { state.withLock { $0.lanes > 0 } }

    /// Returns true to exactly one caller, which then finishes the complete content.
    func claimFinish() -> Bool {
        guard content.isComplete else { return false }
        return state.withLock { state in
            defer { state.isFinished = true }
            return !state.isFinished
        }
    }

    /// Undoes `claimFinish` after a failure, so that the next reader finishes the content.
    func unclaimFinish() { state.withLock { $0.isFinished = false } }

    /// The chunks to fetch next. They belong to the caller until `release`. Empty if nothing is wanted now.
    func claimBatch() -> [Int] { state.withLock { nextBatch(&$0) } }

    /// The same for a lane. With nil the lane has left, so that later readers start a new one.
    func claimBatchOrLeave() -> [Int]? {
        state.withLock { state in
            let batch = nextBatch(&state)
            guard batch.isEmpty else { return batch }
            state.lanes -= 1
            return nil
        }
    }

    private func nextBatch(_ state: inout State) -> [Int] {
        if let first = firstDemanded(state) {
            // A reader waits: fetch few bytes at first, and more while it reads in order.
            let goesOn = first == state.position
            state.lastBatchBytes = goesOn
                ? min(max(state.lastBatchBytes * 2, SyncLimits.firstFetchBytes), SyncLimits.followingFetchBytes)
                : SyncLimits.firstFetchBytes
            return claim(from: first, bytes: state.lastBatchBytes, &state)
        }
        guard state.openers > 0 || state.isBackground else { return [] }
        let batch = claim(from: state.position, bytes: SyncLimits.followingFetchBytes, &state)
        return batch.isEmpty ? claim(from: 0, bytes: SyncLimits.followingFetchBytes, &state) : batch
    }

    /// The first chunk that a reader waits for and that no request is fetching. Readers are served in the order of
    /// arrival.
    private func firstDemanded(_ state: State) -> Int? {
        for (_, waiter) in state.waiters.sorted(by: { $0.key < $1.key }) {
            let missing = content.missing(in: waiter.range, limit: state.claimed.count + 1)
            if let first = missing.first(where: { !state.claimed.contains($0) }) { return first }
        }
        return nil
    }

    /// Consecutive missing, unclaimed chunks from `index` on: at least one, then up to `bytes`.
    private func claim(from index: Int, bytes: Int, _ state: inout State) -> [Int] {
        var batch = [Int](), sum = 0
        let window = Limits.maximumChunksPerRequest
        for chunk in content.missing(from: index, limit: window + state.claimed.count)
        where !state.claimed.contains(chunk) {
            let length = content.manifest[chunk].length
            if !batch.isEmpty, sum + length > bytes || batch.count >= window { break }
            batch.append(chunk)
            sum += length
        }
        state.claimed.formUnion(batch)
        if let last = batch.last { state.position = last + 1 }
        return batch
    }

    func release(_ batch: [Int]) { state.withLock { $0.claimed.subtract(batch) } }
}
