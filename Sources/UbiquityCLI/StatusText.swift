import UbiquityControl
import UbiquityCore

/// The state of a mount and of an item as text for the user.
enum StatusText {
    static func lines(of status: MountStatus) -> [String] {
        var lines = ["\(status.mountPoint)  container \(status.container), account \(status.account)"]
        lines.append(field("device", "\(status.device.name) (\(status.device.id.prefix(8)))"))
        lines.append(field("cloud", cloud(status)))
        if let used = status.usedBytes {
            let quota = status.quotaBytes.map { " of \(ByteSize.text($0))" } ?? ""
            lines.append(field("account", "\(ByteSize.text(used))\(quota) used"))
        }
        lines.append(field("policy", policy(status)))
        lines.append(field("to upload", Output.total(status.uploads)))
        lines.append(field("to download", Output.total(status.downloads)))
        let sent = ByteSize.text(status.bytesSent), received = ByteSize.text(status.bytesReceived)
        lines.append(field("traffic", "\(sent) sent, \(received) received since the start"))
        lines.append(field("passthrough", feature(status.passthrough)))
        if let rings = status.rings { lines.append(field("io_uring", feature(rings))) }
        if let socket = status.socket { lines.append(field("socket", Output.shown(socket))) }
        let paths = ShownPaths(mountPoint: status.mountPoint)
        if status.heldDeletions > 0 {
            lines.append(field("held", TerminalStyle.coloured(held(status.heldDeletions), .yellow)))
        }
        if let conflicts = status.conflicts { lines += of(conflicts, paths) }
        if let coordination = status.coordination { lines += of(coordination) }
        lines += list(status.pending.map { of($0, paths) }, omitted: status.pendingOmitted)
        return lines
    }

    /// Items shown of a list; the others are counted.
    private static let longestList = 10

    private static func list(_ items: [String], omitted: Int = 0) -> [String] {
        let more = omitted + max(0, items.count - longestList)
        return items.prefix(longestList).map { "    \($0)" } + (more > 0 ? ["    … and \(more) more"] : [])
    }

    private static func held(_ deletions: Int) -> String {
        "\(deletions) deletions, more than half of all items: 'ubiquity deletions confirm' or '… undo'"
    }

    private static func feature(_ status: KernelFeatureStatus) -> String {
        status.isActive ? "yes" : "no\(status.reason.map { ": \($0)" } ?? "")"
    }

    private static func of(_ conflicts: ConflictTotal, _ paths: ShownPaths) -> [String] {
        let versions = "\(Output.count(conflicts.versions, "version")), \(ByteSize.text(conflicts.bytes))"
        let what = "\(Output.count(conflicts.items, "item")), \(versions) kept until you decide"
        let more = conflicts.items - conflicts.paths.count
        let text = TerminalStyle.coloured("\(what): 'ubiquity versions PATH', '… resolve PATH'", .yellow)
        return [field("in conflict", text)]
            + list(conflicts.paths.map { Output.shown(paths.text($0)) }, omitted: more)
    }

    /// Clients, granted claims and waiting claims; empty if there are none.
    private static func of(_ coordination: CoordinationStatus) -> [String] {
        var lines = coordination.isStrict ? [field("coordination", "strict: programs wait for each other, too")] : []
        lines += coordination.clients.map { client in
            let process = client.process > 0 ? " (process \(client.process))" : ""
            let shown = client.presenters > 0 ? ", shows \(Output.count(client.presenters, "item"))" : ""
            let mark = client.isUnresponsive ? ", does not answer" : ""
            return field("takes part", "\(Output.shown(client.name))\(process)\(shown)\(mark)")
        }
        lines += coordination.claims.map { claim in
            let items = claim.items.map(Output.shown).joined(separator: ", ")
            let waits = claim.waitsFor.isEmpty ? "" : " for \(claim.waitsFor.joined(separator: ", "))"
            let state = claim.state == "granted" ? "holds" : "\(claim.state)\(waits):"
            return field("claim", "\(claim.owner) \(state) \(items) (\(Int(claim.age)) s)")
        }
        return lines
    }

    private static func field(_ name: String, _ value: String) -> String { "  " + padded(name, 13) + value }

    private static func cloud(_ status: MountStatus) -> String {
        let state = status.cloud.state
        var text = TerminalStyle.coloured(state.rawValue, state == .online ? .green : .yellow)
        if let reason = status.cloud.reason { text += " (\(reason))" }
        text += ", \(status.cloud.address), revision \(status.revision)"
        if let contact = status.cloud.lastContact { text += ", last answer \(Output.ago(contact, now: Output.now()))" }
        return text
    }

    private static func policy(_ status: MountStatus) -> String {
        var text = status.policy
        if let cached = status.cachedBytes { text += ", \(ByteSize.text(cached)) here" }
        if let limit = status.cacheLimit { text += ", at most \(ByteSize.text(limit))" }
        if let floor = status.diskFloor { text += ", \(ByteSize.text(floor)) of the disk stay free" }
        return text
    }

    /// "report.txt: to upload, retrying: the cloud is away; again in 12 s".
    static func of(_ item: PendingItem, _ paths: ShownPaths) -> String {
        var text = "\(Output.shown(paths.text(item.path))): to \(item.direction.rawValue), \(word(item.reason))"
        if let bytes = item.bytes, bytes > 0 { text += ", \(ByteSize.text(bytes))" }
        if let waits = item.waits, item.reason != .transferring {
            return text + ": \(TerminalStyle.coloured(Output.shown(waits.text), .yellow))"
        }
        if let error = item.error { text += ": \(TerminalStyle.coloured(Output.shown(error), .red))" }
        if let moment = item.retryAt { text += "; again in \(max(0, Int(moment - Output.now()))) s" }
        return text
    }

    private static func word(_ reason: PendingItem.Reason) -> String {
        switch reason {
        case .waiting: "waiting"
        case .transferring: "transferring"
        case .retrying: "retrying"
        case .quota: "no space in the account"
        case .throttled: "throttled, it changes too often"
        }
    }

    /// One line: state here and in the cloud, size, path, and notes.
    static func of(_ item: ItemReport) -> String {
        var notes = [String]()
        if item.isDownloading { notes.append("downloading \(Int(item.percentDownloaded)) %") }
        if item.isPinned { notes.append("pinned") }
        if item.isExcludedFromSync { notes.append("not synced") }
        if item.isPackage { notes.append("package") }
        if item.conflictCount > 0 { notes.append(Output.count(item.conflictCount, "conflict version")) }
        if let count = item.heldDeletions { notes.append("held: \(held(count))") }
        for (action, waits, error) in [
            ("download", item.downloadWaits, item.downloadingError), ("upload", item.uploadWaits, item.uploadingError),
        ] {
            if let waits {
                notes.append(TerminalStyle.coloured("\(action): \(Output.shown(waits.text))", .yellow))
            } else if let error {
                notes.append(TerminalStyle.coloured("\(action) failed: \(Output.shown(error))", .red))
            }
        }
        let columns = [
            padded(item.downloadingStatus.rawValue, 15), padded(upload(item), 14), padded(size(item), 10),
            item.path.isEmpty ? "." : Output.shown(item.path),
        ]
        return columns.joined() + (notes.isEmpty ? "" : "  (\(notes.joined(separator: ", ")))")
    }

    private static func upload(_ item: ItemReport) -> String {
        if item.isExcludedFromSync { return "local" }
        if item.isUploading { return "uploading \(Int(item.percentUploaded))%" }
        return item.isUploaded ? "uploaded" : "not-uploaded"
    }

    private static func size(_ item: ItemReport) -> String {
        item.kind == "file" ? ByteSize.text(item.size) : item.kind
    }

    private static func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(1, width - text.count))
    }
}
