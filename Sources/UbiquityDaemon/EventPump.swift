import Logging
import UbiquityControl
import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem

/// Turns commits of the index and the engine's state into events for the listeners at the local socket.
///
/// Changes come from the index's commits as they happen. Transfers and the connection are polled a few times a second,
/// and only while there is a listener.
final class EventPump: Sendable {
    private static let interval = Duration.milliseconds(250)
    /// Interval of polling for a listener: an idle machine should sleep.
    private static let idleInterval = Duration.seconds(1)

    private struct Seen {
        var uploads: [ItemKey: TransferProgress] = [:]
        var downloads: [ItemKey: TransferProgress] = [:]
        var failures: Set<ItemKey> = []
        var phase: ConnectionStatus.Phase?
        var held = 0
    }

    private let parts: MountParts
    private let hub: EventHub
    private let pool: BlockingPool
    private let news: ItemNews

    init(_ parts: MountParts, _ hub: EventHub) {
        self.parts = parts
        self.hub = hub
        // One thread, so that events keep the order of the commits.
        pool = BlockingPool(name: "events", threads: 1)
        news = ItemNews(parts.index)
        parts.index.observe { [weak self] events in self?.take(events) }
        parts.coordination.observe { [weak self] event in self?.take(event) }
        hub.beforeFirst { [weak self] in self?.noteConflicts() }
        // The listeners of the container that the mount served before.
        if hub.hasListeners { noteConflicts() }
    }

    /// Records the conflicts before the first listener arrives, so that their resolution can be announced.
    private func noteConflicts() { _ = pool.start { [news] in news.noteConflicts() } }

    // MARK: Commits

    /// Runs on the committing thread: it only enqueues.
    private func take(_ changes: [IndexEvent]) {
        guard hub.hasListeners else { return }
        let isTold = pool.start { for change in changes { self.tell(change) } }
        if !isTold { hub.noteLoss() }
    }

    private func tell(_ change: IndexEvent) {
        guard let row = change.after ?? change.before else { return }
        for news in news.events(of: change) {
            var event = self.event(wasEvicted(change) ? .evicted : news.kind.forListeners)
            event.itemID = row.id.description
            event.path = news.path
            event.oldPath = news.oldPath
            event.version = news.version
            event.isConflict = news.isConflict
            if row.kind == .file { event.totalBytes = row.size }
            hub.send(event)
            guard let done = transferDone(change) else { continue }
            event.kind = done
            hub.send(event)
        }
    }

    private func wasEvicted(_ change: IndexEvent) -> Bool {
        change.before?.contentState == .complete && change.after?.contentState == ContentState.none
    }

    private func transferDone(_ change: IndexEvent) -> ControlEvent.Kind? {
        guard let before = change.before, let after = change.after, after.kind == .file else { return nil }
        if before.contentState != .complete, after.contentState == .complete, change.origin == .remote {
            return .downloadDone
        }
        let content: DirtyFields = [.content, .created]
        if !before.dirty.isDisjoint(with: content), after.dirty.isDisjoint(with: content) { return .uploadDone }
        return nil
    }

    // MARK: Coordination

    /// Runs under the arbiter's lock: it only enqueues.
    private func take(_ event: CoordinationEvent) {
        guard hub.hasListeners else { return }
        if !pool.start({ self.tell(event) }) { hub.noteLoss() }
    }

    private func tell(_ news: CoordinationEvent) {
        var event: ControlEvent
        switch news.kind {
        case .asked(let steps):
            event = self.event(.asked)
            event.steps = steps.map(\.rawValue)
        case .answered(let refusal):
            event = self.event(.answered)
            event.error = refusal
        case .passedOver: event = self.event(.passedOver)
        case .reacquired: event = self.event(.reacquired)
        }
        event.client = news.client
        event.question = news.question.number
        event.path = news.target.item.flatMap { try? parts.tree.path(of: $0) }
        hub.send(event)
    }

    // MARK: Transfers

    /// Polls until the task is cancelled. If the queue is full, the next poll makes up for it.
    func run() async throws {
        var seen = Seen()
        while true {
            let isIdle = !hub.hasListeners
            try await parts.timekeeper.sleep(for: isIdle ? Self.idleInterval : Self.interval)
            guard hub.hasListeners else {
                seen = Seen()
                continue
            }
            let before = seen
            do {
                seen = try await pool.run { [self] in look(before) }
            } catch {
                try Task.checkCancellation()
                parts.logger.warning("cannot send events of transfers", metadata: ["error": "\(error)"])
            }
        }
    }

    private func look(_ before: Seen) -> Seen {
        let engine = parts.engine
        let failed = engine.status.failedTransfers
        let now = Seen(
            uploads: engine.status.runningUploads, downloads: engine.status.runningDownloads,
            failures: Set(failed.map(\.item)), phase: engine.connection.status.phase, held: engine.heldDeletions)
        tell(now.uploads, before.uploads, began: .uploadStarted, goesOn: .uploadProgress)
        tell(now.downloads, before.downloads, began: .downloadStarted, goesOn: .downloadProgress)
        for failure in failed where !before.failures.contains(failure.item) {
            var event = self.event(failure.direction == .upload ? .uploadFailed : .downloadFailed)
            event.path = (try? parts.tree.path(of: failure.item)).flatMap { $0 }
            event.error = failure.problem.error.description
            hub.send(event)
        }
        // Also at the first poll, for deletions put on hold before there was a listener.
        if now.held != before.held, let held = PendingItems(parts: parts).heldDeletions {
            var event = self.event(.deletionsHeld)
            event.error = held
            hub.send(event)
        }
        if now.phase != before.phase {
            hub.send(connectionEvent())
            // Also at the first poll: it may have happened since the listener arrived.
            if [now.phase, before.phase].contains(.signedOut) {
                // A listener reads the token at once, and the token depends on this file. If it cannot be written now,
                // housekeeping tries again.
                try? RefusedSignIn(deviceFolder: parts.settings.deviceFolder).record(engine.connection.status)
                hub.send(event(.identityChanged))
            }
        }
        return now
    }

    private func event(_ kind: ControlEvent.Kind) -> ControlEvent { ControlEvent(kind, at: parts.timekeeper.now()) }

    private func connectionEvent() -> ControlEvent {
        let contact = StatusCommand(parts: parts).contact(parts.engine.connection.status)
        var event = self.event(.state)
        event.state = contact.state
        event.error = contact.reason
        return event
    }

    private func tell(
        _ now: [ItemKey: TransferProgress], _ before: [ItemKey: TransferProgress], began: ControlEvent.Kind,
        goesOn: ControlEvent.Kind
    ) {
        for (key, progress) in now where before[key] != progress {
            var event = self.event(before[key] == nil ? began : goesOn)
            event.path = (try? parts.tree.path(of: key)).flatMap { $0 }
            event.bytes = progress.doneBytes
            event.totalBytes = progress.totalBytes
            hub.send(event)
        }
    }
}

extension ControlEvent {
    init(_ kind: Kind, at time: Timestamp) { self.init(kind, time: time.seconds) }
}

extension PresenterEvent.Kind {
    fileprivate var forListeners: ControlEvent.Kind {
        switch self {
        case .added: .itemAdded
        case .removed: .itemRemoved
        case .moved: .itemMoved
        case .changed, .begin, .end: .itemChanged
        case .attributesChanged: .ubiquityAttributesChanged
        case .versionGained: .versionGained
        case .versionLost: .versionLost
        case .versionResolved: .versionResolved
        }
    }
}
