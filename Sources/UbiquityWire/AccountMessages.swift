// Messages of the account routes in plain JSON. Only the cloud's own machine uses these routes, so no data of devices
// is in them.

/// The account to create.
package struct AccountRequest: Codable, Hashable, Sendable {
    package var name: String
    /// In bytes; nil for the quota of all accounts.
    package var quota: Int64?

    package init(name: String, quota: Int64? = nil) {
        self.name = name
        self.quota = quota
    }
}

/// New settings of an account.
package struct AccountSettings: Codable, Hashable, Sendable {
    /// In bytes; nil for the quota of all accounts.
    package var quota: Int64?
    package init(quota: Int64?) { self.quota = quota }
}

/// A new account. The token is revealed once: the cloud keeps only its hash.
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
