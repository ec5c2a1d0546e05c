/// `ControlRoute.account`: the account of the device has changed, and the mount must show it.
package struct AccountRequest: Codable, Hashable, Sendable {
    package init() {}
}

/// The account that a mount shows.
package struct AccountReport: Codable, Hashable, Sendable {
    /// False if the mount showed it already.
    package var hasChanged: Bool
    package var account: String
    /// Why the mount shows an empty folder; nil if it shows the account's documents.
    package var absence: String?

    package init(hasChanged: Bool, account: String, absence: String? = nil) {
        self.hasChanged = hasChanged
        self.account = account
        self.absence = absence
    }
}
