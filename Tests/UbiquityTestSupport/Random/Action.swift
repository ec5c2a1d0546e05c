/// What can happen in a simulated world. Of operations on files, which one is meant is drawn when it happens, from the
/// numbers of the step alone, so that leaving a step out does not change what the others draw.
///
/// A new kind of operation is added here, with its weight in `Profile` and its
/// execution in `Performer`.
package enum Action: String, Sendable, CaseIterable {
    // Programs.
    case createFile, makeFolder, makeLink, makeHardLink
    case edit, patch, rewrite, saveOver, overwrite, editAndDie
    case rename, exchange, remove
    /// About a conflict version, an earlier one, and something in the trash.
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

    /// Whether it is a program that does it, which may have to wait; the others happen beside it.
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

/// One thing that happens, at a time within its round.
package struct Step: Sendable {
    package var round: Int
    package var time: Duration
    /// By number; also for what befalls the cloud, where it means nothing.
    package var device: Int
    package var action: Action
    /// Draws all that the action leaves open.
    package var seed: UInt64
}
