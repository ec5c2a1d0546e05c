internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Every wake-up of the engine: who wakes which loop, when an item is tried again, and why it waits until then.
///
/// - Holds the signals of the loops, the broadcast of progress, and the pauses of items. `problems` has the failed
///   transfers with their next attempts, and `throttle` the items that change too often.
/// - All rooms call it. A room reports what has happened (`happened`), and never fires a signal itself.
/// - It calls no room. Its lock may be held while the lock of `throttle` is taken.
///
/// All state but `paused` is in memory. After a restart every other item is tried at once.
final class Agenda: Sendable {
    private let signals = SyncSignals()
    let problems: Problems
    let throttle: Throttle
    /// The files whose sync a program has paused.
    let paused: PausedItems

    private struct State {
        /// When to try an item's upload again.
        var pauses: [ItemKey: Pause] = [:]
        /// Files whose chunks failed to upload.
        var uploadBackoffs: [ItemKey: Backoff] = [:]
        /// Deletions without effect at the cloud, with the time of the next attempt.
        var keptDeletions: [ItemKey: KeptDeletion] = [:]
        /// When a burst of deletions may be over.
        var deletionsWaitUntil: Timestamp?
        /// When the first item that the uploader skipped may be ready.
        var nextLook: Timestamp?
    }

    /// A deletion that is sent again.
    private struct KeptDeletion {
        var backoff = Backoff()
        var until: Timestamp
    }

    private let state = Lock(State())
    private let timekeeper: any Timekeeper
    private let random: any RandomSource
    private let logger: Logger

    init(timekeeper: any Timekeeper, random: any RandomSource, logger: Logger, pausedItems: String? = nil) {
        paused = PausedItems(path: pausedItems)
        self.logger = logger
        self.timekeeper = timekeeper
        self.random = random
        problems = Problems(timekeeper: timekeeper, random: random)
        throttle = Throttle(timekeeper: timekeeper)
    }

    // MARK: Loops

    /// Fires at every change that a person or a command may wait for.
    var progress: Broadcast { signals.progress }

    /// Wakes the loops that the cause concerns.
    func happened(_ cause: Cause) {
        for loop in cause.loops { signal(of: loop).fire() }
        if cause.isProgress { progress.fire() }
    }

    /// Waits until a cause wakes the loop, at most `duration`.
    func wait(for loop: EngineLoop, atMost duration: Duration) async {
        await signal(of: loop).wait(atMost: duration, timekeeper)
    }

    /// Waits until a cause wakes the loop.
    func wait(for loop: EngineLoop) async { await signal(of: loop).wait() }

    private func signal(of loop: EngineLoop) -> Signal {
        switch loop {
        case .feed: signals.feed
        case .push: signals.push
        case .downloads: signals.download
        case .space: signals.space
        }
    }

    /// How long the uploader may sleep: until the first waiting or failed item is due, at most the poll interval.
    /// - Parameter holdEnd: how long the index holds an item for a rename that may follow.
    func timeToNextUpload(holdEnd: Duration?) -> Duration {
        let now = timekeeper.now()
        let pause = state.withLock { state in
            let latest = Self.latest(now, SyncLimits.longestThrottle)
            state.pauses = state.pauses.filter { $0.value.until > now && $0.value.until <= latest }
            if let until = state.deletionsWaitUntil, until <= now { state.deletionsWaitUntil = nil }
            if let until = state.nextLook, until <= now { state.nextLook = nil }
            let kept = state.keptDeletions.values.map(\.until).filter { $0 > now && $0 <= latest }.min()
            let pause = state.pauses.values.map(\.until).min()
            return [kept, pause, state.deletionsWaitUntil, state.nextLook].compactMap { $0 }.min()
        }
        var wait = min(holdEnd ?? SyncLimits.pollInterval, SyncLimits.pollInterval)
        if let due = [problems.nextRetry(.upload, after: now), pause].compactMap({ $0 }).min() {
            wait = min(.nanoseconds(due.nanoseconds - now.nanoseconds), wait)
        }
        return wait
    }

    /// How long the download loop may sleep.
    func timeToNextDownload() -> Duration {
        let now = timekeeper.now()
        guard let due = problems.nextRetry(.download, after: now) else { return SyncLimits.pollInterval }
        return min(.nanoseconds(due.nanoseconds - now.nanoseconds), SyncLimits.pollInterval)
    }

    /// The latest time that a pause of that length can end. A time farther away was recorded before the clock was set
    /// back.
    private static func latest(_ now: Timestamp, _ longest: Duration) -> Timestamp {
        now.advanced(bySeconds: longest / .seconds(1))
    }

    // MARK: Pauses of items

    /// Delays the next attempt to upload an item.
    func pause(_ key: ItemKey, until: Timestamp, _ reason: Pause.Reason) {
        pause([key], until: until, reason)
    }

    func pause(_ keys: Set<ItemKey>, until: Timestamp, _ reason: Pause.Reason) {
        let pause = Pause(until: until, reason: reason)
        let new = state.withLock { state in
            keys.filter { state.pauses.updateValue(pause, forKey: $0)?.reason != reason }
        }
        for key in new { log(pause, of: key) }
    }

    /// Writes the reason of a new pause to the log.
    private func log(_ pause: Pause, of key: ItemKey) {
        let wait = pause.wait(rate: throttle.rate(of: key), writers: [])
        logger.debug("an upload waits", metadata: ["item": "\(key)", "reason": "\(wait.sentence)"])
    }

    /// Delays the next attempt for a moment.
    func pauseBriefly(_ keys: Set<ItemKey>, _ reason: Pause.Reason) {
        pause(keys, until: timekeeper.now().advanced(bySeconds: SyncLimits.rescanDelay / .seconds(1)), reason)
    }

    func resume(_ key: ItemKey) { state.withLock { $0.pauses[key] = nil } }

    /// The item's pause, if it has not ended.
    func pause(of key: ItemKey, _ now: Timestamp) -> Pause? {
        state.withLock { $0.pauses[key].flatMap { $0.until > now ? $0 : nil } }
    }

    /// Whether one of these items pauses.
    func isAnyPaused(_ keys: Set<ItemKey>, _ now: Timestamp) -> Bool {
        state.withLock { state in keys.contains { state.pauses[$0]?.until ?? now > now } }
    }

    /// Whether the item's content waits: it changes too often, or a program has paused its sync. The uploader wakes
    /// when the throttle or the pause ends.
    func isThrottled(_ key: ItemKey) -> Bool {
        if paused.contains(key) { return true }
        // Under one lock: another thread may end the throttle in between.
        let (pause, isNew) = state.withLock { state -> (Pause?, Bool) in
            guard let until = throttle.restsUntil(key) else { return (nil, false) }
            let pause = Pause(until: until, reason: .isThrottled)
            return (pause, state.pauses.updateValue(pause, forKey: key) != pause)
        }
        if isNew, let pause { log(pause, of: key) }
        return pause != nil
    }

    /// Ends the throttle of these items, because somebody waits for them. Later changes are throttled as before.
    func endThrottles(of keys: some Sequence<ItemKey>) {
        state.withLock { state in
            for key in keys {
                // The pause may have another reason.
                guard let until = throttle.endRest(of: key), state.pauses[key]?.until == until else { continue }
                state.pauses[key] = nil
            }
        }
        happened(.pausesWereEnded)
    }

    // MARK: Failed uploads

    /// Delays the next attempt to upload a file, longer each time: the whole file is read before the first of its
    /// chunks is sent again.
    func pauseAfterFailure(_ key: ItemKey) {
        let now = timekeeper.now()
        state.withLock { state in
            if state.uploadBackoffs.count >= SyncLimits.rememberedBackoffs { state.uploadBackoffs.removeAll() }
            let wait = state.uploadBackoffs[key, default: Backoff()].next(random)
            let until = now.advanced(bySeconds: max(wait, SyncLimits.rescanDelay) / .seconds(1))
            state.pauses[key] = Pause(until: until, reason: .uploadFailed)
        }
    }

    /// Forgets the failures of files that the cloud has.
    func succeeded(_ keys: [ItemKey]) {
        state.withLock { state in
            for key in keys { state.uploadBackoffs[key] = nil }
        }
    }

    // MARK: Looks

    /// Makes the uploader look again at that time at the latest.
    func lookAgain(at time: Timestamp) {
        state.withLock { $0.nextLook = min($0.nextLook ?? time, time) }
    }

    /// Records when the first item that a search skipped may be ready.
    /// - Parameter isWhole: whether the search began at the first item, so that earlier times do not matter any more.
    func searched(nextLook: Timestamp?, isWhole: Bool) {
        state.withLock { state in
            state.nextLook = [isWhole ? nil : state.nextLook, nextLook].compactMap { $0 }.min()
        }
    }

    // MARK: Deletions

    var deletionBurstEnd: Timestamp? { state.withLock { $0.deletionsWaitUntil } }

    func waitForDeletions(until: Timestamp) { state.withLock { $0.deletionsWaitUntil = until } }

    /// How often each deletion was sent without effect.
    var deletionAttempts: [ItemKey: Int] { state.withLock { $0.keptDeletions.mapValues(\.backoff.attempts) } }

    /// Delays deletions that had no effect at the cloud, longer each time.
    /// - Parameter sent: the items of the group.
    func pauseDeletions(_ kept: Set<ItemKey>, of sent: [ItemKey]) {
        let now = timekeeper.now()
        state.withLock { state in
            for key in sent where !kept.contains(key) { state.keptDeletions[key] = nil }
            if state.keptDeletions.count >= SyncLimits.rememberedBackoffs { state.keptDeletions.removeAll() }
            for key in kept {
                var next = state.keptDeletions[key] ?? KeptDeletion(until: now)
                next.until = now.advanced(bySeconds: next.backoff.next(random) / .seconds(1))
                state.keptDeletions[key] = next
            }
        }
    }

    /// When the item's deletion is sent again, if the cloud kept the item.
    func deletionPauseEnd(of key: ItemKey, _ now: Timestamp) -> Timestamp? {
        guard let until = state.withLock({ $0.keptDeletions[key]?.until }) else { return nil }
        return until > now && until <= Self.latest(now, Backoff.longest) ? until : nil
    }
}

/// The wake-ups of the engine's loops.
private struct SyncSignals: Sendable {
    let push = Signal()
    let download = Signal()
    let feed = Signal()
    /// Fires when a program begins to write.
    let space = Signal()
    /// Fires at every change that a waiter may wait for.
    let progress = Broadcast()
}
