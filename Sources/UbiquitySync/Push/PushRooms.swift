/// The rooms that send local changes, built in the order of their dependencies.
///
/// `Gatherer` selects changes, `ContentUploader` uploads large contents, `ChangeSender` runs the push loop.
/// `DeletionHold` and `AccountQuota` say what must wait. `PackageSync` has the changes of packages.
final class PushRooms: Sendable {
    let hold: DeletionHold
    let changes: ChangeSender

    init(_ context: SyncContext, _ sender: CommitSender, _ claims: PackageClaims, _ staged: StagedPackages) {
        hold = DeletionHold(context)
        let quota = AccountQuota(context), contents = PendingContents(context), folderTimes = FolderTimes(context)
        let outcomes = CommitOutcomes(context, contents, hold, quota, folderTimes)
        let packages = PackageSync(context, sender, claims, contents, outcomes, staged)
        let gatherer = Gatherer(context, sender, contents, hold, quota, folderTimes, packages)
        changes = ChangeSender(context, sender, gatherer, contents, quota, packages, outcomes)
    }
}
