// Messages of a sign-in by code, in plain JSON. Times are seconds since 1970.

/// A device asks for a code. No token is needed: the code gives nothing before it is approved.
package struct SignInRequest: Codable, Hashable, Sendable {
    package var account: String
    /// The device's name, which the approving user sees.
    package var device: String

    package init(account: String, device: String) {
        self.account = account
        self.device = device
    }
}

/// The code that the device shows. With the secret the device collects its token.
package struct SignInCode: Codable, Hashable, Sendable {
    /// For example "BCDF-GHJK".
    package var code: String
    package var secret: String
    /// In seconds from now.
    package var expiresIn: Double
    /// In seconds: the device asks for its token at most this often.
    package var interval: Double

    package init(code: String, secret: String, expiresIn: Double, interval: Double) {
        self.code = code
        self.secret = secret
        self.expiresIn = expiresIn
        self.interval = interval
    }
}

/// The question of a device whether its code was approved.
package struct SignInSecret: Codable, Hashable, Sendable {
    package var secret: String
    package init(secret: String) { self.secret = secret }
}

/// The answer; without a token the code waits for a decision.
package struct SignInAnswer: Codable, Hashable, Sendable {
    package var token: NewToken?
    package init(token: NewToken?) { self.token = token }
}

/// The decision about a code. The rights are those of the new token.
package struct SignInDecision: Codable, Hashable, Sendable {
    package var code: String
    /// The containers that the token opens; nil for all of the account.
    package var containers: [String]?
    package var readOnly: Bool?

    package init(code: String, containers: [String]? = nil, readOnly: Bool? = nil) {
        self.code = code
        self.containers = containers
        self.readOnly = readOnly
    }
}

/// A code that waits for a decision.
package struct PendingSignIn: Codable, Hashable, Sendable {
    package var code: String
    package var account: String
    /// The name that the device gives itself.
    package var device: String
    /// The address of the request; nil for one over the cloud's socket.
    package var address: String?
    package var requested: Double
    package var expires: Double

    package init(
        code: String, account: String, device: String, address: String?, requested: Double, expires: Double
    ) {
        self.code = code
        self.account = account
        self.device = device
        self.address = address
        self.requested = requested
        self.expires = expires
    }
}

package struct PendingSignInList: Codable, Hashable, Sendable {
    package var signIns: [PendingSignIn]
    package init(signIns: [PendingSignIn]) { self.signIns = signIns }
}
