package import UbiquityCloudStore
internal import UbiquityCore

extension CloudHost {
    /// Serves this cloud.
    package init(_ cloud: Cloud) {
        self.init(
            authenticate: { token in try await cloud.authenticate(token) },
            service: { account, container in try await cloud.service(account: account, container: container) },
            overview: { account in try await cloud.overview(of: account) },
            browser: { account, container in try await cloud.browser(account: account, container: container) },
            createAccount: { name in try await cloud.createAccount(name) },
            accounts: { try await cloud.accounts() },
            deleteAccount: { name in try await cloud.deleteAccount(name) })
    }
}
