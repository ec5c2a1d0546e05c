package import UbiquityCore
package import UbiquityWire

/// Decides the effect of a commit, once for all devices. A pure function: it reads a state and returns a plan.
///
/// The changes of a commit are applied together: a parent may come after its child, and two items may swap their names.
/// So the engine works in phases over a working set. Each phase sees all changes with the earlier phases applied.
package enum CommitEngine {
    /// - Parameters:
    ///   - revision: the container's present revision; changed items get the next one.
    ///   - now: the cloud's clock. Devices' times are clamped to it.
    ///   - limit: the allowed cost of the plan (`CloudLimits.workPerCommit`).
    /// - Throws: `.invalid` for a malformed request, `.tooLarge` beyond the limit or if an item would get too many
    ///   conflicts, `PackageConflict`, and errors of `state`.
    package static func plan(
        _ request: CommitRequest, on state: any ContainerState, revision: Revision, now: Timestamp,
        work limit: Int = CloudLimits.workPerCommit
    ) throws -> CommitPlan {
        try request.check()
        let work = CommitWork(request, state: MeteredState(state, limit: limit), revision: revision, now: now)
        try work.classifyChanges()
        try work.checkPackages()
        try work.applyFields()
        try work.applyVersionActions()
        try work.applyPlaces()
        try work.applyUndeletions()
        try work.bringBackLinked()
        try work.bringBackParents()
        try work.applyDeletions()
        try work.settleNames()
        try work.notePackages()
        try work.checkConflicts()
        return work.plan()
    }
}
