import Logging
import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem

// The cloud behind the server: its data, and what it does now and then.
extension CloudProcess {
    /// Upkeep of trash, versions and chunks runs at the start and this often.
    private static let upkeepInterval = Duration.seconds(6 * 3600)

    /// "allowed" takes a copied data folder for the same cloud, for tests that play a loss of power by copying.
    private static let copiesVariable = "UBIQUITY_CLOUD_COPIES"

    static func open(
        _ data: String, _ keeping: KeepingRules, _ quotaBytes: Int64?, _ logger: Logger
    ) async throws -> Cloud {
        let pool = BlockingPool(name: "cloud-store", threads: CloudLimits.storeThreads)
        return try await pool.run {
            try Cloud(
                data: data, timekeeper: SystemTimekeeper(), random: SystemRandom(), pool: pool, logger: logger,
                keeping: keeping, quotaBytes: quotaBytes,
                noticesCopies: ProcessHost.variable(copiesVariable) != "allowed")
        }
    }

    /// How often it is looked whether the data folder is still there.
    private static let watchInterval = Duration.seconds(2)

    /// A cloud whose folder is gone or moved away takes nothing any more; it ends, so that devices find the one that
    /// stands there now.
    static func watchPlace(of cloud: Cloud, _ logger: Logger, _ stop: @Sendable () -> Void) async {
        while cloud.isInPlace {
            do { try await Sleepers.shared.sleep(for: watchInterval) } catch { return }
        }
        logger.error("the data folder, or its \(Cloud.lockName), was removed or moved: this cloud ends")
        stop()
    }

    /// Runs until the task is cancelled.
    static func keepUp(_ cloud: Cloud, _ logger: Logger) async {
        while !Task.isCancelled {
            do {
                try await cloud.maintain()
                try await Sleepers.shared.sleep(for: upkeepInterval)
            } catch {
                guard !Task.isCancelled else { return }
                logger.warning("upkeep failed", metadata: ["reason": "\(error)"])
                try? await Sleepers.shared.sleep(for: .seconds(60))
            }
        }
    }
}
