import Logging
import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem

/// The data of the cloud process, and its periodic work.
struct CloudUpkeep: Sendable {
    /// "allowed" accepts a copied data folder as the same cloud, for tests that simulate a power loss by copying.
    private static let copiesVariable = "UBIQUITY_CLOUD_COPIES"

    /// Interval of the check that the data folder is in place.
    private static let watchInterval = Duration.seconds(2)

    let cloud: Cloud
    let logger: Logger

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

    /// Ends a cloud whose data folder was removed or moved away. It must accept nothing more, so that devices find the
    /// cloud now at that path.
    func watchPlace(_ stop: @Sendable () -> Void) async {
        while cloud.isInPlace {
            do { try await Sleepers.shared.sleep(for: Self.watchInterval) } catch { return }
        }
        logger.error("the data folder, or its \(Cloud.lockName), was removed or moved: this cloud ends")
        stop()
    }

    /// Runs the upkeep until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            do {
                try await cloud.maintain()
                try await Sleepers.shared.sleep(for: .seconds(CloudLimits.upkeepInterval))
            } catch {
                guard !Task.isCancelled else { return }
                logger.warning("upkeep failed", metadata: ["reason": "\(error)"])
                try? await Sleepers.shared.sleep(for: .seconds(60))
            }
        }
    }
}
