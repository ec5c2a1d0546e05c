/// A fault put into a simulated world on purpose, to show that the simulator finds such faults.
package enum PlantedFault: String, Sendable, CaseIterable {
    /// The cloud treats every edit as made from the current version: the loser of a conflict is no conflict.
    case conflictRule = "conflict-rule"
    /// Sometimes the cloud acknowledges a commit and does not keep its contents.
    case lostUpload = "lost-upload"
    /// A sync of a file reports success and does nothing.
    case skippedSync = "skipped-fsync"
    /// A folder is deleted without the entries that were moved out of it, and not again if the cloud keeps it.
    case forgottenDeletion = "forgotten-deletion"
    /// A device accepts records that no sound cloud sends.
    case uncheckedRecords = "unchecked-records"

    /// The profile whose worlds show the fault; nil if several profiles do.
    package var profile: Profile? { self == .uncheckedRecords ? .hostile : nil }

    func plant(in world: Simulation) {
        switch self {
        case .conflictRule, .lostUpload: world.cloud.setFault(self)
        // Part of the devices' settings.
        case .forgottenDeletion, .uncheckedRecords: break
        case .skippedSync: for device in world.devices { device.disk.skipContentSyncs() }
        }
    }
}
