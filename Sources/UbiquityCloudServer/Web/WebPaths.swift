internal import UbiquityCore

/// The addresses of the pages.
struct WebPaths: Sendable {
    /// Named in every address for the cloud's owner, who sees all accounts. Nil for a session, which has one.
    var account: String?

    private func path(_ path: String, _ query: [(String, String)]) -> String {
        let all = query + (account.map { [("account", $0)] } ?? [])
        guard !all.isEmpty else { return path }
        return path + "?" + all.map { "\($0)=\(PercentEncoding.encode($1))" }.joined(separator: "&")
    }

    /// A page of the account: "/", "/devices", …
    func account(_ rest: String, _ query: (String, String)...) -> String { path(rest, query) }

    /// A page of a container.
    func container(_ container: ContainerID, _ rest: String = "", _ query: (String, String)...) -> String {
        path("/containers/\(PercentEncoding.encode(container.name))\(rest)", query)
    }

    func folder(_ folder: ItemID, in container: ContainerID, _ query: (String, String)...) -> String {
        let place = folder == .root ? [] : [("folder", folder.description)]
        return path("/containers/\(PercentEncoding.encode(container.name))", place + query)
    }

    func item(_ item: ItemID, in container: ContainerID, _ rest: String = "", _ query: (String, String)...) -> String {
        path("/containers/\(PercentEncoding.encode(container.name))/items/\(item)\(rest)", query)
    }

    /// Whether the text is a path of this server. A browser would take "//host" for another server.
    static func isLocal(_ text: String) -> Bool {
        guard text.hasPrefix("/"), !text.hasPrefix("//"), !text.hasPrefix("/\\") else { return false }
        return text.utf8.allSatisfy { (0x21..<0x7F).contains($0) }
    }
}
