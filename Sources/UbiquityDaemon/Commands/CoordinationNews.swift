import UbiquityControl
import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySystem

/// Puts messages for coordination clients into the form of the local socket.
struct CoordinationNews: MountCommand {
    let parts: MountParts

    /// The message in wire form; nil for a heartbeat.
    func news(_ message: ClientMessage) async throws -> ClientNews? {
        var news: ClientNews
        switch message {
        case .heartbeat: return nil
        case .ask(let question):
            news = ClientNews(.ask)
            news.question = question.id.number
            news.presenter = question.presenter.number
            news.steps = question.steps.map(\.rawValue)
            if question.isPlainCall { news.isPlainCall = true }
            news.seconds = max(0, (question.deadline - parts.timekeeper.uptime()) / .seconds(1))
            let target = coordination.target(of: question.presenter)
            news.path = try await path(of: target?.item)
            if !question.subitems.isEmpty {
                var paths = [String]()
                for item in question.subitems { paths += [try await path(of: item)].compactMap { $0 } }
                news.subitems = paths
            }
        case .reacquire(let question, let presenter):
            news = ClientNews(.reacquire)
            news.question = question.number
            news.presenter = presenter.number
        case .passedOver(let question, let presenter):
            news = ClientNews(.passedOver)
            news.question = question.number
            news.presenter = presenter.number
        case .event(let event): news = self.news(of: event)
        }
        return news
    }

    private func path(of item: ItemKey?) async throws -> String? {
        guard let item else { return nil }
        return try await pool.run { [tree = parts.tree] in try tree.path(of: item) }
    }

    private func news(of event: PresenterEvent) -> ClientNews {
        var news = ClientNews(event.kind.forClients)
        news.path = event.path
        news.oldPath = event.oldPath
        news.version = event.version
        news.isConflict = event.isConflict
        news.fields = event.fields
        if !event.presenters.isEmpty { news.presenters = event.presenters.map(\.number) }
        if !event.folderPresenters.isEmpty { news.folderPresenters = event.folderPresenters.map(\.number) }
        return news
    }
}

extension PresenterEvent.Kind {
    fileprivate var forClients: ClientNews.Kind {
        switch self {
        case .changed: .changed
        case .moved: .moved
        case .removed: .removed
        case .added: .added
        case .attributesChanged: .ubiquityAttributesChanged
        case .versionGained: .versionGained
        case .versionLost: .versionLost
        case .versionResolved: .versionResolved
        case .begin: .begin
        case .end: .end
        }
    }
}
