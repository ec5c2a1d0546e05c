import UbiquityControl
import UbiquityCore

/// The messages that wait for one presenter. A request overtakes plain change messages. Changes of one item merge until
/// the presenter has read them. When the queue is full, it leaves messages out and reports an overflow.
struct PresenterQueue {
    /// Messages. A presenter that falls further behind must look at everything again.
    static let maximumWaiting = 1024

    private var waiting: [ClientNews] = []

    var count: Int { waiting.count }

    mutating func next() -> ClientNews? { waiting.isEmpty ? nil : waiting.removeFirst() }

    mutating func add(_ message: ClientNews) {
        // The index after the last message with a fixed position. Only change messages may be overtaken and merged.
        let start = (waiting.lastIndex { !$0.isChange }).map { $0 + 1 } ?? 0
        if message.kind == .ask { return waiting.insert(message, at: start) }
        if message.kind == .overflow { return noteLoss() }
        if message.isChange, let index = waiting[start...].firstIndex(where: { $0.isSameChange(as: message) }) {
            return waiting[index].merge(message)
        }
        if message.isOwnMove, let last = waiting.last, last.isOwnMove, last.presenters == message.presenters {
            waiting[waiting.count - 1].path = message.path
            return
        }
        guard waiting.count < Self.maximumWaiting || !message.canBeLeftOut else { return noteLoss() }
        waiting.append(message)
    }

    /// An overflow makes the presenter look at everything again, so older changes are dropped.
    private mutating func noteLoss() {
        waiting.removeAll { $0.canBeLeftOut || $0.kind == .overflow }
        waiting.append(ClientNews(.overflow))
    }
}

extension ClientNews {
    /// True if the message only says that something should be looked at.
    fileprivate var isChange: Bool {
        switch kind {
        case .changed, .added, .removed, .ubiquityAttributesChanged: true
        default: false
        }
    }

    /// Requests arrive in pairs with their end, and a presenter needs moves to know its place. Both are never dropped.
    fileprivate var canBeLeftOut: Bool {
        switch kind {
        case .ask, .reacquire, .overflow: false
        case .moved: presenters == nil
        default: true
        }
    }

    /// A move of the presented item itself. Only the last place matters.
    fileprivate var isOwnMove: Bool { kind == .moved && presenters != nil && folderPresenters == nil }

    fileprivate func isSameChange(as other: ClientNews) -> Bool {
        kind == other.kind && (path ?? "").isSamePath(as: other.path ?? "") && presenters == other.presenters
            && folderPresenters == other.folderPresenters
    }

    fileprivate mutating func merge(_ other: ClientNews) {
        guard let more = other.fields, let fields else { return fields = nil }
        self.fields = fields + more.filter { !fields.contains($0) }
    }

    /// False for a change of permissions or attributes alone.
    var mayBeOfContent: Bool {
        guard kind == .changed, let fields, !fields.isEmpty else { return true }
        return fields.contains("content") || fields.contains("times")
    }
}
