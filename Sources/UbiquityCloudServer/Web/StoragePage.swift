import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// The account's bytes on the cloud's disk, by container and document.
struct StoragePage: Sendable {
    let rooms: WebRooms

    func add(to router: Router<CloudContext>) { router.get("storage", use: rooms.page(storage)) }

    @Sendable private func storage(_ request: Request, _ context: CloudContext, _ visitor: Visitor) async throws
        -> Response
    {
        let frame = try await rooms.frame(request, visitor)
        let usage = try await rooms.access.cloud().survey.usage(of: visitor.account)
        let allowed = visitor.holder.rights.containers
        let containers = usage.containers.filter { container in
            allowed.map { $0.contains { $0.name == container.name } } ?? true
        }
        let sections: [HTML] = containers.map { container in
            let documents: [HTML] = (container.documents ?? []).prefix(20).map { document in
                .row("\(document.name)", .size(document.bytes.live), .size(document.bytes.total))
            }
            let list: HTML? = documents.isEmpty ? nil : .table(
                "The largest documents of \(container.name)", ["Document", "Present", "With versions and trash"],
                documents)
            return """
                <section class="card"><h2>\(container.name)</h2>\(Self.bar(container.bytes, of: container.bytes.total))
                \(list)</section>
                """
        }
        let content: HTML = """
            <h1>Storage</h1><section class="card"><h2>Account \(usage.account)</h2>
            \(PageFrame.usageBar(usage.counted, of: usage.quota))
            <p class="soft">Present documents count towards the quota. Earlier versions and the trash do not, and go by
            themselves after a while.</p>
            <h2>On the cloud’s disk: \(HTML.size(usage.total))</h2>
            \(Self.bar(usage.bytes, of: usage.total))</section>\(sections)
            """
        return WebAnswer.page(frame.page("Storage", .storage, content))
    }

    /// A bar of present contents, earlier versions and the trash, with its key.
    private static func bar(_ sums: UsageSums, of total: Int64) -> HTML {
        let parts = [("live", "Present", sums.live), ("earlier", "Earlier versions", sums.earlierVersions),
            ("deleted", "Trash", sums.trash)]
        var start = 0.0
        let pieces: [HTML] = parts.map { part in
            let width = total > 0 ? Double(part.2) / Double(total) * 100 : 0
            defer { start += width }
            return """
                <rect class="\(part.0)" x="\(percent(start))" width="\(percent(width))" height="100%"></rect>
                """
        }
        let key: [HTML] = parts.map { part in
            """
            <li><svg aria-hidden="true"><rect class="\(part.0)" width="100%" height="100%"></rect></svg>\(part.1): \
            \(HTML.size(part.2))</li>
            """
        }
        return """
            <div class="bars"><svg aria-hidden="true" preserveAspectRatio="none">\(pieces)</svg>
            <ul class="key">\(key)</ul></div>
            """
    }

    private static func percent(_ number: Double) -> String { "\((number * 100).rounded() / 100)%" }
}
