import FoundationEssentials
import UbiquityControl

/// Hands a presenter its messages, one after the other, and answers what it was asked.
final class PresenterDesk: Sendable {
    /// What is asked of every presenter; one that does not care agrees.
    static let abilities = [
        "relinquish-to-reader", "relinquish-to-writer", "save-changes", "accommodate-deletion",
        "accommodate-subitem-deletion", "accommodate-eviction",
    ]

    private let news: AsyncStream<ClientNews>.Continuation
    private let worker: Task<Void, Never>

    /// - Parameter place: the URL of a path in the mount.
    init(
        _ presenter: any FilePresenter, client: CoordinationClient, number: UInt64,
        place: @escaping @Sendable (String) -> URL
    ) {
        let (stream, news) = AsyncStream.makeStream(of: ClientNews.self)
        self.news = news
        worker = Task {
            for await message in stream {
                await Self.hand(message, to: presenter, client: client, number: number, place: place)
            }
        }
    }

    func take(_ message: ClientNews) { news.yield(message) }

    func close() { news.finish() }

    private static func hand(
        _ message: ClientNews, to presenter: any FilePresenter, client: CoordinationClient, number: UInt64,
        place: @Sendable (String) -> URL
    ) async {
        switch message.kind {
        case .ask:
            guard let question = message.question else { return }
            var refusal: String?
            do { try await carryOut(message, presenter, place) } catch { refusal = "\(error)" }
            // An answer that does not reach the daemon is one that does not come in time: that is taken care of there.
            try? await client.answer(question, refusal: refusal)
        case .reacquire: await presenter.reacquirePresentedItem()
        case .registered, .passedOver, .overflow, .begin, .end: return
        default: await tell(message, to: presenter, number, place)
        }
    }

    private static func carryOut(
        _ message: ClientNews, _ presenter: any FilePresenter, _ place: @Sendable (String) -> URL
    ) async throws {
        for step in message.steps ?? [] {
            switch step {
            case "relinquish-to-reader": try await presenter.relinquishPresentedItemToReader()
            case "relinquish-to-writer": try await presenter.relinquishPresentedItemToWriter()
            case "save-changes": try await presenter.savePresentedItemChanges()
            case "accommodate-deletion": try await presenter.accommodatePresentedItemDeletion()
            case "accommodate-eviction": try await presenter.accommodatePresentedItemEviction()
            case "accommodate-subitem-deletion":
                for path in message.subitems ?? [] {
                    try await presenter.accommodatePresentedSubitemDeletion(at: place(path))
                }
            // A newer daemon's question that this program does not know is not asked of it.
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
        case (.ubiquityAttributesChanged, true): await presenter.presentedItemDidChangeUbiquityAttributes()
        case (.versionGained, true):
            await presenter.presentedItemDidGainVersion(message.version, isConflict: isConflict)
        case (.versionGained, false):
            await presenter.presentedSubitemDidGainVersion(
                at: url, identifier: message.version, isConflict: isConflict)
        case (.versionResolved, true): await presenter.presentedItemDidResolveConflictVersion(message.version)
        case (.versionResolved, false):
            await presenter.presentedSubitemDidResolveConflictVersion(at: url, identifier: message.version)
        case (_, true): await presenter.presentedItemDidChange()
        case (_, false): await presenter.presentedSubitemDidChange(at: url)
        }
    }
}
