package import UbiquityCore

/// The rights of a token within its account.
package struct TokenRights: Hashable, Sendable {
    /// The containers that it opens; nil for all, also those created later.
    package var containers: Set<ContainerID>?
    package var isReadOnly: Bool

    package static let all = TokenRights(containers: nil, isReadOnly: false)

    package init(containers: Set<ContainerID>?, isReadOnly: Bool) {
        self.containers = containers
        self.isReadOnly = isReadOnly
    }

    /// Throws `.accessDenied` if the token may not use the container, or not change it.
    package func require(_ container: ContainerID, isWriting: Bool) throws {
        guard containers?.contains(container) ?? true else {
            throw UbiquityError(
                .accessDenied, "this token may not use the container \"\(container)\"",
                remedy: "sign in with a token for it: 'ubiquity account token create --container \(container)'")
        }
        guard !isWriting || !isReadOnly else {
            throw UbiquityError(
                .accessDenied, "this token may only read the container \"\(container)\"",
                remedy: "sign in with a token that may write: 'ubiquity account token create'")
        }
    }

    /// Throws `.accessDenied` unless the token has all rights. A token with fewer could otherwise give itself more.
    /// - Parameter action: the attempted action, with its verb.
    package func requireAll(to action: String) throws {
        guard self == .all else {
            throw UbiquityError(
                .accessDenied, "this token may not \(action): it is for some containers, or for reading only",
                remedy: "use a token without --container and --read-only")
        }
    }

    // MARK: In the database

    /// The containers as one text, in the order of their names. Nil for all.
    var storedContainers: String? { containers.map { $0.map(\.name).sorted().joined(separator: "\n") } }

    init(storedContainers: String?, isReadOnly: Bool) {
        containers = storedContainers.map { Set($0.split(separator: "\n").compactMap { ContainerID(String($0)) }) }
        self.isReadOnly = isReadOnly
    }
}

/// The account and the token of a request.
package struct TokenHolder: Hashable, Sendable {
    package var account: String
    /// The token's number at this cloud; nil for a request without a token, over the cloud's own socket.
    package var token: Int64?
    package var rights: TokenRights

    package init(account: String, token: Int64? = nil, rights: TokenRights = .all) {
        self.account = account
        self.token = token
        self.rights = rights
    }
}
