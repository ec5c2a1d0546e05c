// Messages about an account's tokens and devices, in plain JSON. Times are seconds since 1970.

/// The token to create.
package struct TokenRequest: Codable, Hashable, Sendable {
    /// A name that no other token of the account has; nil lets the cloud number it.
    package var name: String?
    /// The containers that the token opens; nil for all of the account.
    package var containers: [String]?
    package var readOnly: Bool?

    package init(name: String? = nil, containers: [String]? = nil, readOnly: Bool? = nil) {
        self.name = name
        self.containers = containers
        self.readOnly = readOnly
    }
}

/// A new token. The secret is revealed once: the cloud keeps only its hash.
package struct NewToken: Codable, Hashable, Sendable {
    package var account: String
    package var name: String
    package var token: String

    package init(account: String, name: String, token: String) {
        self.account = account
        self.name = name
        self.token = token
    }
}

/// The account and the rights of the token of a request.
package struct OwnRights: Codable, Hashable, Sendable {
    package var account: String
    /// The containers that it opens, by name; nil for all.
    package var containers: [String]?
    package var readOnly: Bool

    package init(account: String, containers: [String]?, readOnly: Bool) {
        self.account = account
        self.containers = containers
        self.readOnly = readOnly
    }
}

/// A valid token of an account, without its secret.
package struct TokenEntry: Codable, Hashable, Sendable {
    package var name: String
    /// The containers that it opens; nil for all.
    package var containers: [String]?
    package var readOnly: Bool
    package var created: Double
    /// Nil if no device has used it yet. The cloud records a use within five minutes.
    package var lastUsed: Double?
    /// The names of the devices that have used it.
    package var devices: [String]

    package init(
        name: String, containers: [String]?, readOnly: Bool, created: Double, lastUsed: Double?, devices: [String]
    ) {
        self.name = name
        self.containers = containers
        self.readOnly = readOnly
        self.created = created
        self.lastUsed = lastUsed
        self.devices = devices
    }
}

package struct TokenList: Codable, Hashable, Sendable {
    package var tokens: [TokenEntry]
    package init(tokens: [TokenEntry]) { self.tokens = tokens }
}

/// A device of an account.
package struct DeviceEntry: Codable, Hashable, Sendable {
    /// 32 hexadecimal digits.
    package var id: String
    package var name: String
    package var firstContact: Double
    package var lastContact: Double
    /// The names of the valid tokens that it has used.
    package var tokens: [String]

    package init(id: String, name: String, firstContact: Double, lastContact: Double, tokens: [String]) {
        self.id = id
        self.name = name
        self.firstContact = firstContact
        self.lastContact = lastContact
        self.tokens = tokens
    }
}

package struct DeviceList: Codable, Hashable, Sendable {
    package var devices: [DeviceEntry]
    package init(devices: [DeviceEntry]) { self.devices = devices }
}

/// The effect of removing a device.
package struct RemovedDevice: Codable, Hashable, Sendable {
    package var name: String
    /// The names of the tokens that were revoked with it.
    package var revokedTokens: [String]
    /// Other devices that used one of these tokens, and are cut off too.
    package var otherDevices: [String]

    package init(name: String, revokedTokens: [String], otherDevices: [String]) {
        self.name = name
        self.revokedTokens = revokedTokens
        self.otherDevices = otherDevices
    }
}
