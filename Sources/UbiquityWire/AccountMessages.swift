// The account routes, which only the cloud's own machine uses, in plain JSON: nothing of a device travels here.

/// Which account to make.
package struct AccountRequest: Codable, Hashable, Sendable {
    package var name: String
    package init(name: String) { self.name = name }
}

/// An account that was made. The token is told once: the cloud keeps only its hash.
package struct AccountToken: Codable, Hashable, Sendable {
    package var name: String
    package var token: String

    package init(name: String, token: String) {
        self.name = name
        self.token = token
    }
}

package struct AccountList: Codable, Hashable, Sendable {
    package var accounts: [String]
    package init(accounts: [String]) { self.accounts = accounts }
}
