internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// The page of accounts, with their containers and devices.
struct OverviewPage {
    /// Accounts on one page; the figures of each are computed for every page.
    static let accounts = 20

    var accounts: [AccountOverview]
    /// Number of the next page's first account.
    var next: Int?

    var html: HTML {
        let more: HTML = next.map { "<p>\(HTML.link("/?from=\($0)", "more accounts"))</p>" } ?? .empty
        let none: HTML = accounts.isEmpty ? "<p>There is no account here.</p>" : .empty
        return .page("ubiquity cloud", "\(accounts.map(Self.section))\(none)\(more)")
    }

    private static func section(_ account: AccountOverview) -> HTML {
        """
        <h2>Account \(account.name)</h2>
        <p>\(bytes(account.usage.usedBytes)) of \(bytes(account.usage.quotaBytes)) used</p>
        \(account.containers.isEmpty ? "<p>No containers yet.</p>" : containers(account))
        \(devices(account))
        """
    }

    private static func containers(_ account: AccountOverview) -> HTML {
        .table(
            ["container", "items", "versions", "in conflict", "deleted", "revision"],
            account.containers.map { container in
                let address = ContainerAddress(account: account.name, container: container.name)
                return .row(
                    .link(address.path(), container.name.name), "\(counted(container.items))",
                    "\(counted(container.versions))",
                    .link(address.path("/conflicts"), counted(container.conflictItems)),
                    .link(address.path("/trash"), counted(container.deletedItems)), "\(container.revision.number)")
            })
    }

    private static func devices(_ account: AccountOverview) -> HTML {
        let rows: [HTML] = account.containers.flatMap { container in
            container.devices.map { .row("\($0.name)", "\(container.name.name)", "\($0.id.description)") }
        }
        return rows.isEmpty ? "<p>No device has sent anything yet.</p>" : .table(["device", "in", "id"], rows)
    }

    private static func counted(_ count: Int) -> String {
        count < CloudLimits.countedRows ? "\(count)" : "\(count) or more"
    }

    /// "1,234,567 bytes".
    static func bytes(_ count: Int64) -> String {
        let digits = Array("\(count)"), isNegative = digits.first == "-"
        var text = ""
        for (index, digit) in digits.enumerated() {
            let left = digits.count - index
            if index > (isNegative ? 1 : 0), left.isMultiple(of: 3) { text.append(",") }
            text.append(digit)
        }
        return text + (count == 1 ? " byte" : " bytes")
    }
}

/// The address of the pages about a container.
struct ContainerAddress: Sendable {
    var account: String
    var container: ContainerID

    /// - Parameters:
    ///   - rest: the part after the container's name.
    ///   - query: each is encoded here.
    func path(_ rest: String = "", _ query: (String, String)...) -> String {
        let all = query + [("account", account)]
        return "/containers/\(PercentEncoding.encode(container.name))\(rest)?"
            + all.map { "\($0)=\(PercentEncoding.encode($1))" }.joined(separator: "&")
    }
}
