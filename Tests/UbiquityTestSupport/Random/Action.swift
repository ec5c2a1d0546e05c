/// The events of a simulated world. For an operation on files, the file is drawn when the event happens, from the
/// numbers of the step alone: omitting a step does not change the draws of the others.
///
/// A new kind of operation is added here, with its weight in `Profile` and its execution in `Performer`.
package enum Action: String, Sendable, CaseIterable {
    // Programs.
    case createFile, makeFolder, makeLink, makeHardLink
    case edit, patch, rewrite, saveOver, overwrite, editAndDie
    case rename, exchange, remove
    /// Operations on a conflict version, an earlier version, and an entry of the trash.
    case decide, restoreEarlier, undelete
    case setMode, setXattr, touch
    case read, evict, pin, syncFolder
    case backupSave, hiddenSave, savePackage, workInPackages, ignore, evictHard
    // The network of a device.
    case goodNetwork, badNetwork, away, back
    // The device.
    case pause, resume, kill, losePower, killAtWrite, losePowerAtWrite, start, fillDisk, freeDisk
    // The cloud.
    case forgetDeletions, restartCloud, crashCloud, fillAccount, freeAccount, forgetChunks

    /// Whether a program does it, which may have to wait; the other events happen in parallel.
    package var isProgram: Bool {
        switch self {
        case .createFile, .makeFolder, .makeLink, .makeHardLink, .edit, .patch, .rewrite, .saveOver, .overwrite,
            .editAndDie, .rename, .exchange, .remove, .decide, .restoreEarlier, .undelete, .setMode, .setXattr, .touch, .read, .evict, .pin,
            .syncFolder, .backupSave, .hiddenSave, .savePackage, .workInPackages, .ignore, .evictHard:
            true
        default: false
        }
    }
}

/// One event, at a time within its round.
package struct Step: Sendable {
    package var round: Int
    package var time: Duration
    /// The number of the device. Events of the cloud have one too, without a meaning.
    package var device: Int
    package var action: Action
    /// Draws all remaining choices of the action.
    package var seed: UInt64
}
