import FoundationEssentials

/// A program's view of an item that it shows, or of a folder with everything in it.
///
/// Register it with `FileCoordinator.addFilePresenter` when the program first shows the item, and remove it when the
/// item is closed. Calls arrive one after the other, in the order of the events; each call finishes before the next
/// begins. Other programs wait while the presenter handles a request (relinquish, save, accommodate), for ten seconds
/// at most. After that the daemon skips the presenter until it has answered a request again.
///
/// A presenter gets no calls for accesses by a coordinator made with it, nor for ordinary file calls of its own
/// program.
public protocol FilePresenter: AnyObject, Sendable {
    /// The item being presented. It is read once, when the presenter is added; later moves arrive as calls.
    var presentedItemURL: URL { get async }

    // MARK: Requests

    /// Another program wants to read the item: return once this program does not write it. `reacquirePresentedItem`
    /// follows.
    func relinquishPresentedItemToReader() async throws
    /// Another program wants to write the item: return once this program does not use it. `reacquirePresentedItem`
    /// follows.
    func relinquishPresentedItemToWriter() async throws
    /// The other program has finished. Changes announced meanwhile can be read now.
    func reacquirePresentedItem() async
    /// Save all unsaved changes: another program is about to read or change the item. Throw if that fails; the other
    /// program gets the error.
    func savePresentedItemChanges() async throws
    /// The item is about to be deleted: close it.
    func accommodatePresentedItemDeletion() async throws
    /// The item's content is about to be evicted from this device; the cloud keeps it. Throw to keep the content here.
    func accommodatePresentedItemEviction() async throws
    /// An item in the presented folder is about to be deleted.
    func accommodatePresentedSubitemDeletion(at url: URL) async throws

    // MARK: Notifications

    func presentedItemDidMove(to url: URL) async
    /// The item's content or attributes have changed. Read the file to see the change.
    func presentedItemDidChange() async
    /// The item's download or upload state has changed.
    func presentedItemDidChangeUbiquityAttributes() async
    /// The item has gained a version besides the current one. Not every such version is a conflict.
    func presentedItemDidGainVersion(_ identifier: String?, isConflict: Bool) async
    /// A version that was not a conflict is gone; nil if its identifier is not known.
    func presentedItemDidLoseVersion(_ identifier: String?) async
    /// A conflict was resolved, on this device or another.
    func presentedItemDidResolveConflictVersion(_ identifier: String?) async
    /// An item in the presented folder was added or has changed.
    func presentedSubitemDidChange(at url: URL) async
    func presentedSubitem(at oldURL: URL, didMoveTo url: URL) async
    func presentedSubitemDidGainVersion(at url: URL, identifier: String?, isConflict: Bool) async
    func presentedSubitemDidLoseVersion(at url: URL, identifier: String?) async
    func presentedSubitemDidResolveConflictVersion(at url: URL, identifier: String?) async
    /// The mount or the connection to it has ended. The presenter is no longer registered.
    func presentationDidEnd() async
}

/// Defaults: a presenter implements the calls it needs. The defaults agree to every request and ignore every
/// notification.
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
