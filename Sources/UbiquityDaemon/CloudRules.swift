import Logging
import UbiquityCloudStore
import UbiquityCore

/// The rules of a cloud that its command line and the user's configuration give. The command line comes first.
struct CloudRules: Hashable, Sendable {
    /// Retention in days of deleted items, earlier versions and resolved conflicts.
    var days: Double?
    /// Number of earlier versions kept of one file.
    var versions: Int?
    /// Quota of the accounts without one of their own; nil keeps the present quotas.
    var quotaBytes: Int64?

    /// With the values of the user's configuration where the command line gives none. A cloud that runs as a service
    /// may belong to a user without a configuration.
    func completed(_ user: UserConfiguration? = try? UserConfiguration.load()) -> CloudRules {
        CloudRules(
            days: days ?? user?.keptDays, versions: versions ?? user?.keptVersions,
            quotaBytes: quotaBytes ?? user?.quotaBytes)
    }

    var keeping: KeepingRules {
        let seconds = (days ?? CloudProcess.standardDays) * 86_400
        return KeepingRules(
            trashSeconds: seconds, historySeconds: seconds, versionsPerItem: versions ?? CloudProcess.standardVersions)
    }

    /// Reads the configuration again and applies it. One that cannot be read changes nothing.
    func reload(into cloud: Cloud, _ logger: Logger) async {
        do {
            let rules = completed(try UserConfiguration.load())
            try await cloud.apply(keeping: rules.keeping, quotaBytes: rules.quotaBytes)
            logger.notice("read the configuration again")
        } catch {
            logger.error("the present configuration stays in use", metadata: ["reason": "\(error)"])
        }
    }
}
