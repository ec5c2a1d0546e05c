package import UbiquityCore
package import UbiquityWire

/// Decides what a commit does, for all devices and once. Pure: reads a state, gives a plan.
///
/// The changes of a commit are applied together: a parent may stand after its child, two items may swap their names.
/// So the work goes in phases over a working set, and each phase sees all changes with the phases before applied.
package enum CommitEngine {
    /// - Parameters:
    ///   - revision: the container's revision now; changed items get the next one.
    ///   - now: the cloud's clock. Devices' times are clamped to it.
    ///   - limit: what the plan may cost (`CloudLimits.workPerCommit`).
    /// - Throws: `.invalid` if the request breaks a rule of form, `.tooLarge` beyond the limit or if an item would get
    ///   too many conflicts, `PackageConflict`, and what `state` throws.
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
