package import UbiquityCore
package import UbiquityIndex
internal import UbiquitySystem

/// Pauses and resumes the sync of single files, and compares a file with the cloud's state.
package struct SyncControl: SyncRoom {
    package let context: SyncContext

    package func isPaused(_ key: ItemKey) -> Bool { agenda.paused.contains(key) }

    /// Returns whether that was a change. A transfer that runs already ends as usual.
    @discardableResult
    package func setPaused(_ key: ItemKey, _ isPaused: Bool) throws -> Bool {
        guard try agenda.paused.set(key, isPaused) else { return false }
        agenda.happened(.pausesWereEnded)
        agenda.happened(.downloadWasRequested)
        return true
    }

    /// Whether the cloud has a version that the file on this device is not based on.
    package func isBehind(_ row: ItemRow) throws -> Bool {
        guard let content = try index.read({ try $0.remote(id: row.id) })?.content else { return false }
        return content.version != row.version
    }
}
