package import UbiquityCloudStore
internal import UbiquityCore

extension CloudHost {
    /// Serves this cloud.
    package init(_ cloud: Cloud) {
        self.init(
            authenticate: { token in try await cloud.tokens.authenticate(token) },
            service: { holder, container in
                try await cloud.service(
                    account: holder.account, container: container, isReadOnly: holder.rights.isReadOnly)
            },
            overview: { account in try await cloud.overview(of: account) },
            browser: { account, container in try await cloud.browser(account: account, container: container) },
            createAccount: { name, quota in try await cloud.createAccount(name, quota: quota) },
            accounts: { try await cloud.accounts() },
            deleteAccount: { name in try await cloud.deleteAccount(name) },
            cloud: cloud)
    }
}
