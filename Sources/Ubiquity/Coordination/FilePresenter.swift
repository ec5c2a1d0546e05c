import FoundationEssentials

/// A program's part in what happens to an item that it shows, or to a folder with all that is in it.
///
/// Register with `FileCoordinator.addFilePresenter` when the item is first shown, and remove when it no longer is.
/// Calls come one after the other, in the order in which things happened; each is waited for before the next one.
/// What one is asked (relinquish, save, accommodate) holds others up until it returns, and for ten seconds at most: one
/// that takes longer is passed over, and not waited for again until it has answered something.
///
/// A presenter is not told of accesses by a coordinator that was made with it, nor of what its own program does to the
/// files by ordinary calls.
public protocol FilePresenter: AnyObject, Sendable {
    /// The item, as long as it is presented. Asked once, when the presenter is added; moves are told.
    var presentedItemURL: URL { get async }

    // MARK: Asked

    /// Another wants to read the item: return when it is not being written. `reacquirePresentedItem` follows.
    func relinquishPresentedItemToReader() async throws
    /// Another wants to write the item: return when it is not being used. `reacquirePresentedItem` follows.
    func relinquishPresentedItemToWriter() async throws
    /// The other has finished. What was told in between is to be looked at now.
    func reacquirePresentedItem() async
    /// What is not saved yet is to be saved: another is about to read the item, or to change it. Throw if it cannot be:
    /// the other gets the error.
    func savePresentedItemChanges() async throws
    /// The item is about to be deleted: stop showing it.
    func accommodatePresentedItemDeletion() async throws
    /// The item's content is about to leave this device; the cloud has it. Throw to keep it here.
    func accommodatePresentedItemEviction() async throws
    /// An item in the presented folder is about to be deleted.
    func accommodatePresentedSubitemDeletion(at url: URL) async throws

    // MARK: Told

    func presentedItemDidMove(to url: URL) async
    /// Its content or attributes are others; what is, the disk says.
    func presentedItemDidChange() async
    /// Whether it is downloaded, uploaded and the like has changed.
    func presentedItemDidChangeUbiquityAttributes() async
    /// There is a version beside the current one. Not each is a conflict.
    func presentedItemDidGainVersion(_ identifier: String?, isConflict: Bool) async
    /// A version that was no conflict is gone; nil where it is not known which.
    func presentedItemDidLoseVersion(_ identifier: String?) async
    /// A conflict was settled, here or elsewhere.
    func presentedItemDidResolveConflictVersion(_ identifier: String?) async
    /// Something in the presented folder is new or has changed.
    func presentedSubitemDidChange(at url: URL) async
    func presentedSubitem(at oldURL: URL, didMoveTo url: URL) async
    func presentedSubitemDidGainVersion(at url: URL, identifier: String?, isConflict: Bool) async
    func presentedSubitemDidLoseVersion(at url: URL, identifier: String?) async
    func presentedSubitemDidResolveConflictVersion(at url: URL, identifier: String?) async
    /// The mount has ended, or the connection to it: the presenter is registered no more.
    func presentationDidEnd() async
}

/// A presenter does what it cares for; the rest is agreed to, or passed over.
extension FilePresenter {
    public func relinquishPresentedItemToReader() async throws {}
    public func relinquishPresentedItemToWriter() async throws {}
    public func reacquirePresentedItem() async {}
    public func savePresentedItemChanges() async throws {}
    public func accommodatePresentedItemDeletion() async throws {}
    public func accommodatePresentedItemEviction() async throws {}
    public func accommodatePresentedSubitemDeletion(at url: URL) async throws {}
    public func presentedItemDidMove(to url: URL) async {}
    public func presentedItemDidChange() async {}
    public func presentedItemDidChangeUbiquityAttributes() async {}
    public func presentedItemDidGainVersion(_ identifier: String?, isConflict: Bool) async {}
    public func presentedItemDidLoseVersion(_ identifier: String?) async {}
    public func presentedItemDidResolveConflictVersion(_ identifier: String?) async {}
    public func presentedSubitemDidChange(at url: URL) async {}
    public func presentedSubitem(at oldURL: URL, didMoveTo url: URL) async {}
    public func presentedSubitemDidGainVersion(at url: URL, identifier: String?, isConflict: Bool) async {}
    public func presentedSubitemDidLoseVersion(at url: URL, identifier: String?) async {}
    public func presentedSubitemDidResolveConflictVersion(at url: URL, identifier: String?) async {}
    public func presentationDidEnd() async {}
}
