package import UbiquityCloudStore
package import UbiquityCore
package import UbiquityWire

/// The functions that the server needs: of a `Cloud`, or of a test's substitute.
package struct CloudHost: Sendable {
    /// The account of requests over the Unix socket that name none.
    package static let localAccount = "local"

    /// The account and the rights of a token. Throws `.signedOut` if there is none, `RevokedToken` if it was revoked.
    package var authenticate: @Sendable (_ token: String) async throws -> TokenHolder
    /// One container of the holder's account. The caller has checked the rights to it. A holder who may only read must
    /// not create it.
    package var service: @Sendable (_ holder: TokenHolder, _ container: ContainerID) async throws -> any CloudService
    /// The containers and devices of an account. Throws `.notFound`.
    package var overview: @Sendable (_ account: String) async throws -> AccountOverview
    /// Read access to one container of an account. Throws `.notFound`.
    package var browser: @Sendable (_ account: String, _ container: ContainerID) async throws -> any ContainerBrowser
    /// Creates an account and its token. Throws `.alreadyExists`, `.invalidName`.
    package var createAccount: @Sendable (_ name: String, _ quota: Int64?) async throws -> String
    package var accounts: @Sendable () async throws -> [String]
    /// Throws `.notFound`.
    package var deleteAccount: @Sendable (_ name: String) async throws -> Void
    /// For the routes about tokens, devices and usage. Nil for a test's substitute, which has none of them.
    package var cloud: Cloud?

    package init(
        authenticate: @escaping @Sendable (String) async throws -> TokenHolder,
        service: @escaping @Sendable (TokenHolder, ContainerID) async throws -> any CloudService,
        overview: @escaping @Sendable (String) async throws -> AccountOverview,
        browser: @escaping @Sendable (String, ContainerID) async throws -> any ContainerBrowser,
        createAccount: @escaping @Sendable (String, Int64?) async throws -> String,
        accounts: @escaping @Sendable () async throws -> [String],
        deleteAccount: @escaping @Sendable (String) async throws -> Void,
        cloud: Cloud? = nil
    ) {
        self.authenticate = authenticate
        self.service = service
        self.overview = overview
        self.browser = browser
        self.createAccount = createAccount
        self.accounts = accounts
        self.deleteAccount = deleteAccount
        self.cloud = cloud
    }
}
