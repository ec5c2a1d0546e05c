package import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Writes to the log why items wait: each reason once, when a look first finds it.
///
/// It holds the reasons that the last look found. `Maintenance` looks every few seconds, so a reason that passes sooner
/// is not logged. It reads the index and `WaitReader`.
package final class WaitLog: SyncRoom {
    package let context: SyncContext
    private let waits: WaitReader

    fileprivate struct Waiting: Hashable {
        var item: ItemKey
        var direction: TransferDirection
    }

    fileprivate struct Found {
        var waiting: Waiting
        var name: String
        var wait: ItemWait
    }

    fileprivate struct Line {
        var message: Logger.Message
        var metadata: Logger.Metadata
    }

    fileprivate struct State {
        /// The reasons by item, each by its code.
        var known: [Waiting: String] = [:]
        /// The reason that stops all transfers.
        var common: String?
        /// The begin of the present minute, in uptime of the machine.
        var minute = Duration.zero
        /// The lines of that minute, and the reasons that got none.
        var count = 0
        var omitted = 0
    }

    private let state = Lock(State())

    /// The messages of its lines.
    package static let messages: [Logger.Message] = [upload, download, all, more]
    fileprivate static let upload: Logger.Message = "an upload waits"
    fileprivate static let download: Logger.Message = "a download waits"
    fileprivate static let all: Logger.Message = "all transfers wait"
    fileprivate static let more: Logger.Message = "more transfers wait than were logged"

    init(_ context: SyncContext, _ waits: WaitReader) {
        self.context = context
        self.waits = waits
    }

    /// Looks at the first pending items. An unreadable index reports its own errors.
    func look() {
        guard let (found, common) = try? index.read({ try look($0) }) else { return }
        let now = timekeeper.uptime()
        let lines = state.withLock { $0.lines(for: found, common, now) }
        for line in lines { logger.info(line.message, metadata: line.metadata) }
    }

    /// - Returns: the items that wait, with their names, and the reason that stops all transfers.
    private func look(_ reader: IndexReader) throws -> ([Found], common: ItemWait?) {
        var found = [Found]()
        func add(_ row: ItemRow, _ direction: TransferDirection, _ wait: ItemWait?) {
            guard let wait, wait.reason != .turn else { return }
            let waiting = Waiting(item: row.key, direction: direction)
            found.append(Found(waiting: waiting, name: row.entry?.name.description ?? "", wait: wait))
        }
        for row in try reader.unsentRows(limit: SyncLimits.examinedWaits) {
            let wait = try waits.waits(of: row, reader).upload
            if let wait, wait.reason.stopsAll { return ([], wait) }
            add(row, .upload, wait)
        }
        let replaced = try reader.records(.awaitingContent, limit: SyncLimits.examinedWaits).compactMap(reader.row(id:))
        for row in try reader.wanted(eager: 0, after: ItemKey(0), limit: SyncLimits.examinedWaits) + replaced {
            let wait = try waits.waits(of: row, reader).download
            if let wait, wait.reason.stopsAll { return ([], wait) }
            add(row, .download, wait)
        }
        return (found, nil)
    }
}

extension WaitLog.State {
    /// The lines to write after a look, and the reasons that it found.
    fileprivate mutating func lines(
        for found: [WaitLog.Found], _ common: ItemWait?, _ now: Duration
    ) -> [WaitLog.Line] {
        var lines = beginMinute(now)
        if let common {
            // The items' own reasons are unknown meanwhile, and are not new afterwards.
            if self.common != common.code { add(WaitLog.all, ["reason": "\(common.sentence)"], to: &lines) }
        } else {
            for each in found where known[each.waiting] != each.wait.code {
                let metadata: Logger.Metadata = [
                    "item": "\(each.waiting.item)", "name": "\(each.name)", "reason": "\(each.wait.sentence)",
                ]
                add(each.waiting.direction == .upload ? WaitLog.upload : WaitLog.download, metadata, to: &lines)
            }
            known = Dictionary(found.map { ($0.waiting, $0.wait.code) }) { first, _ in first }
        }
        self.common = common?.code
        return lines
    }

    private mutating func beginMinute(_ now: Duration) -> [WaitLog.Line] {
        guard count == 0 || now - minute >= .seconds(60) else { return [] }
        defer { (minute, count, omitted) = (now, 0, 0) }
        guard omitted > 0 else { return [] }
        return [WaitLog.Line(message: WaitLog.more, metadata: ["items": "\(omitted)", "see": "ubiquity status"])]
    }

    private mutating func add(_ message: Logger.Message, _ metadata: Logger.Metadata, to lines: inout [WaitLog.Line]) {
        if count < SyncLimits.waitLines {
            count += 1
            lines.append(WaitLog.Line(message: message, metadata: metadata))
        } else {
            omitted += 1
        }
    }
}

/// Says why the transfers of an item wait. It holds nothing.
struct WaitReader: Sendable {
    let status: StatusReader
    let claims: PackageClaims
    let hold: DeletionHold

    /// Why the item's upload and its download wait. Nil if they need not wait.
    func waits(of row: ItemRow, _ reader: IndexReader) throws -> (upload: ItemWait?, download: ItemWait?) {
        let uploader = WaitFinder.Uploader(
            deletionsOnHold: hold.count, isAsking: { [claims] in claims.isAsking(about: $0) })
        return try status.waits(of: row, uploader, reader)
    }
}

extension ItemWait.Reason {
    /// Whether the reason stops the transfers of all items.
    fileprivate var stopsAll: Bool {
        switch self {
        case .offlineOnRequest, .signedOut, .network, .changesOfOthers: true
        default: false
        }
    }
}
