/// Why a transfer of an item waits.
package struct TransferWait: Codable, Hashable, Sendable {
    /// The reason as a word: "network", "throttled", "account-full", …
    package var reason: String
    /// The reason as a sentence, with the time of the next attempt.
    package var text: String
    /// The time of the next attempt, in seconds since 1970; nil if it depends on something else than time.
    package var until: Double?

    package init(reason: String, text: String, until: Double? = nil) {
        self.reason = reason
        self.text = text
        self.until = until
    }
}
