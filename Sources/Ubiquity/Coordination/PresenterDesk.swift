import FoundationEssentials
import UbiquityControl
import UbiquitySystem

/// Delivers messages to one presenter, one after the other, and sends its answers to the daemon.
final class PresenterDesk: Sendable {
    /// The requests sent to every presenter. A presenter without an implementation of its own agrees.
    static let abilities = [
        "relinquish-to-reader", "relinquish-to-writer", "save-changes", "accommodate-deletion",
        "accommodate-subitem-deletion", "accommodate-eviction",
    ]

    private struct State {
        var queue = PresenterQueue()
        var isClosed = false
    }

    private let state = Lock(State())
    private let wake: AsyncStream<Void>.Continuation
    private let looksAtContent: Bool

    /// - Parameters:
    ///   - observed: The sync attributes whose changes the presenter learns of; nil for none.
    ///   - answer: Sends the answer to a question; a refusal has a reason.
    ///   - place: Returns the URL of a path in the mount.
    init(
        _ presenter: any FilePresenter, number: UInt64, observed: ObservedAttributes? = nil,
        answer: @escaping @Sendable (_ question: UInt64, _ refusal: String?) async -> Void,
        place: @escaping @Sendable (String) -> URL
    ) {
        let (signals, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        self.wake = wake
        looksAtContent = presenter is Document
        let state = self.state
        Task {
            for await _ in signals {
                while let message = state.withLock({ $0.queue.next() }) {
                    if message.kind == .ubiquityAttributesChanged {
                        await Self.report(message, to: presenter, number: number, observed, place)
                    } else {
                        await Self.hand(message, to: presenter, number: number, answer: answer, place: place)
                    }
                }
            }
        }
    }

    func take(_ message: ClientNews) {
        // A change of a document's permissions or attributes does not change its content.
        guard !looksAtContent || message.mayBeOfContent else { return }
        state.withLock { if !$0.isClosed { $0.queue.add(message) } }
        wake.yield()
    }

    /// Accepts no more messages. Waiting messages are still delivered.
    func close() {
        state.withLock { $0.isClosed = true }
        wake.finish()
    }

    private static func hand(
        _ message: ClientNews, to presenter: any FilePresenter, number: UInt64,
        answer: @Sendable (UInt64, String?) async -> Void, place: @Sendable (String) -> URL
    ) async {
        switch message.kind {
        case .ask:
            guard let question = message.question else { return }
            var refusal: String?
            do { try await carryOut(message, presenter, place) } catch { refusal = "\(error)" }
            await answer(question, refusal)
        case .reacquire: await presenter.reacquirePresentedItem()
        case .overflow: await tellOfLoss(presenter)
        case .registered, .passedOver, .begin, .end: return
        default: await tell(message, to: presenter, number, place)
        }
    }

    /// Reports the observed attributes that have changed. Members of a folder are not observed.
    private static func report(
        _ message: ClientNews, to presenter: any FilePresenter, number: UInt64, _ observed: ObservedAttributes?,
        _ place: @Sendable (String) -> URL
    ) async {
        guard let path = message.path, message.presenters?.contains(number) ?? false else { return }
        let changed = await observed?.changes(at: place(path)) ?? []
        if !changed.isEmpty { await presenter.presentedItemDidChangeUbiquityAttributes(changed) }
    }

    /// Handles an overflow: messages were left out, so anything may have changed.
    private static func tellOfLoss(_ presenter: any FilePresenter) async {
        await presenter.presentedItemDidChange()
        let url = await presenter.presentedItemURL
        // If conflicts cannot be listed now, the presenter finds them on its next look.
        let conflicts = (try? await FileVersion.unresolvedConflictVersionsOfItem(at: url)) ?? []
        for conflict in conflicts {
            await presenter.presentedItemDidGainVersion(conflict.persistentIdentifier, isConflict: true)
        }
        if conflicts.isEmpty { await presenter.presentedItemDidResolveConflictVersion(nil) }
    }

    private static func carryOut(
        _ message: ClientNews, _ presenter: any FilePresenter, _ place: @Sendable (String) -> URL
    ) async throws {
        for step in message.steps ?? [] {
            switch step {
            case "relinquish-to-reader": try await presenter.relinquishPresentedItemToReader()
            case "relinquish-to-writer": try await presenter.relinquishPresentedItemToWriter()
            case "save-changes": try await presenter.savePresentedItemChanges()
            case "accommodate-deletion":
                if let document = presenter as? Document, message.isPlainCall == true {
                    try await document.accommodateDeletion(canSave: false)
                } else {
                    try await presenter.accommodatePresentedItemDeletion()
                }
            case "accommodate-eviction": try await presenter.accommodatePresentedItemEviction()
            case "accommodate-subitem-deletion":
                for path in message.subitems ?? [] {
                    try await presenter.accommodatePresentedSubitemDeletion(at: place(path))
                }
            // A newer daemon may send a request that this program does not know. It is skipped.
            default: continue
            }
        }
    }

    private static func tell(
        _ message: ClientNews, to presenter: any FilePresenter, _ number: UInt64, _ place: @Sendable (String) -> URL
    ) async {
        guard let path = message.path else { return }
        let url = place(path), isConflict = message.isConflict ?? false
        let isOfItem = message.presenters?.contains(number) ?? false
        switch (message.kind, isOfItem) {
        case (.moved, true): await presenter.presentedItemDidMove(to: url)
        case (.moved, false): await presenter.presentedSubitem(at: place(message.oldPath ?? path), didMoveTo: url)
        case (.versionGained, true):
            await presenter.presentedItemDidGainVersion(message.version, isConflict: isConflict)
        case (.versionGained, false):
            await presenter.presentedSubitemDidGainVersion(
                at: url, identifier: message.version, isConflict: isConflict)
        case (.versionLost, true): await presenter.presentedItemDidLoseVersion(message.version)
        case (.versionLost, false):
            await presenter.presentedSubitemDidLoseVersion(at: url, identifier: message.version)
        case (.versionResolved, true): await presenter.presentedItemDidResolveConflictVersion(message.version)
        case (.versionResolved, false):
            await presenter.presentedSubitemDidResolveConflictVersion(at: url, identifier: message.version)
        case (_, true): await presenter.presentedItemDidChange()
        case (_, false): await presenter.presentedSubitemDidChange(at: url)
        }
    }
}
