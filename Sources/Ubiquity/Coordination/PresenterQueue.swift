import UbiquityControl
import UbiquityCore

/// What waits for one presenter. Questions do not wait for what is only told of changes, and changes of one item that
/// nobody has looked at yet are one. What is more than a presenter can be behind is left out, and it is told so.
struct PresenterQueue {
    /// Messages: a presenter that is so far behind looks at everything anew.
    static let maximumWaiting = 1024

    private var waiting: [ClientNews] = []

    var count: Int { waiting.count }

    mutating func next() -> ClientNews? { waiting.isEmpty ? nil : waiting.removeFirst() }

    mutating func add(_ message: ClientNews) {
        // Behind the last message that has its place: only changes are passed and merged.
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

    /// Whoever looks at everything anew needs to be told of no change before that.
    private mutating func noteLoss() {
        waiting.removeAll { $0.canBeLeftOut || $0.kind == .overflow }
        waiting.append(ClientNews(.overflow))
    }
}

extension ClientNews {
    /// Whether it says no more than that something is to be looked at.
    fileprivate var isChange: Bool {
        switch kind {
        case .changed, .added, .removed, .ubiquityAttributesChanged: true
        default: false
        }
    }

    /// Questions come one at a time, each with its end; without a move a presenter would not know its place.
    fileprivate var canBeLeftOut: Bool {
        switch kind {
        case .ask, .reacquire, .overflow: false
        case .moved: presenters == nil
        default: true
        }
    }

    /// Of the presented item itself: only where it is in the end matters.
    fileprivate var isOwnMove: Bool { kind == .moved && presenters != nil && folderPresenters == nil }

    fileprivate func isSameChange(as other: ClientNews) -> Bool {
        kind == other.kind && (path ?? "").isSamePath(as: other.path ?? "") && presenters == other.presenters
            && folderPresenters == other.folderPresenters
    }

    fileprivate mutating func merge(_ other: ClientNews) {
        guard let more = other.fields, let fields else { return fields = nil }
        self.fields = fields + more.filter { !fields.contains($0) }
    }

    /// False for a change of rights or attributes alone.
    var mayBeOfContent: Bool {
        guard kind == .changed, let fields, !fields.isEmpty else { return true }
        return fields.contains("content") || fields.contains("times")
    }
}
