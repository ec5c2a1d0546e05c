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
///
/// - Source: `NSFilePresenter`.
public protocol FilePresenter: AnyObject, Sendable {
    /// The item being presented. It is read once, when the presenter is added; later moves arrive as calls.
    var presentedItemURL: URL { get async }
    /// The document that the presented item belongs to, for example the film of a subtitle file. Nil for an item of its
    /// own, which is the default. A move of that document arrives as `primaryPresentedItemDidMove(to:)`.
    var primaryPresentedItemURL: URL? { get async }
    /// The sync attributes whose changes `presentedItemDidChangeUbiquityAttributes` reports. Read once, when the
    /// presenter is added. By default whether the item is ubiquitous, downloaded and uploaded.
    var observedPresentedItemUbiquityAttributes: Set<UbiquitousItem.Key> { get async }

    // MARK: Requests

    /// Another program wants to read the item: return once this program does not write it. `reacquirePresentedItem`
    /// follows.
    ///
    /// - Throws: The reason why this program still writes the item. The other program gets the error.
    func relinquishPresentedItemToReader() async throws
    /// Another program wants to write the item: return once this program does not use it. `reacquirePresentedItem`
    /// follows.
    ///
    /// - Throws: The reason why this program still uses the item. The other program gets the error.
    func relinquishPresentedItemToWriter() async throws
    /// The other program has finished. Changes announced meanwhile can be read now.
    func reacquirePresentedItem() async
    /// Save all unsaved changes: another program is about to read or change the item. Throw if that fails; the other
    /// program gets the error.
    ///
    /// - Throws: The reason why the changes are not saved.
    func savePresentedItemChanges() async throws
    /// The item is about to be deleted: close it.
    ///
    /// - Throws: The reason against the deletion. The other program gets the error.
    func accommodatePresentedItemDeletion() async throws
    /// The item's content is about to be evicted from this device; the cloud keeps it. Throw to keep the content here.
    ///
    /// - Throws: The reason why the content must stay.
    func accommodatePresentedItemEviction() async throws
    /// An item in the presented folder is about to be deleted.
    ///
    /// - Parameter url: The URL of the item.
    /// - Throws: The reason against the deletion.
    func accommodatePresentedSubitemDeletion(at url: URL) async throws

    // MARK: Notifications

    /// The item was moved or renamed.
    ///
    /// - Parameter url: The new URL.
    func presentedItemDidMove(to url: URL) async
    /// The item's content or attributes have changed. Read the file to see the change.
    func presentedItemDidChange() async
    /// The document that the presented item belongs to was moved or renamed.
    ///
    /// - Parameter url: The new URL of the document.
    func primaryPresentedItemDidMove(to url: URL) async
    /// Some of the observed sync attributes have new values.
    ///
    /// - Parameter attributes: The attributes that changed since the last call.
    func presentedItemDidChangeUbiquityAttributes(_ attributes: Set<UbiquitousItem.Key>) async
    /// The item has gained a version besides the current one. Not every such version is a conflict.
    ///
    /// - Parameter identifier: The persistent identifier of the version; nil if it is not known.
    /// - Parameter isConflict: Whether the version lost a conflict.
    func presentedItemDidGainVersion(_ identifier: String?, isConflict: Bool) async
    /// A version that was not a conflict is gone; nil if its identifier is not known.
    ///
    /// - Parameter identifier: The persistent identifier of the version.
    func presentedItemDidLoseVersion(_ identifier: String?) async
    /// A conflict was resolved, on this device or another.
    ///
    /// - Parameter identifier: The persistent identifier of the version; nil if it is not known.
    func presentedItemDidResolveConflictVersion(_ identifier: String?) async
    /// An item in the presented folder was added or has changed.
    ///
    /// - Parameter url: The URL of the item.
    func presentedSubitemDidChange(at url: URL) async
    /// An item in the presented folder was moved or renamed.
    ///
    /// - Parameter oldURL: The former URL.
    /// - Parameter url: The new URL.
    func presentedSubitem(at oldURL: URL, didMoveTo url: URL) async
    /// An item in the presented folder has gained a version besides the current one.
    ///
    /// - Parameter url: The URL of the item.
    /// - Parameter identifier: The persistent identifier of the version; nil if it is not known.
    /// - Parameter isConflict: Whether the version lost a conflict.
    func presentedSubitemDidGainVersion(at url: URL, identifier: String?, isConflict: Bool) async
    /// An item in the presented folder has lost a version that was not a conflict.
    ///
    /// - Parameter url: The URL of the item.
    /// - Parameter identifier: The persistent identifier of the version; nil if it is not known.
    func presentedSubitemDidLoseVersion(at url: URL, identifier: String?) async
    /// A conflict of an item in the presented folder was resolved.
    ///
    /// - Parameter url: The URL of the item.
    /// - Parameter identifier: The persistent identifier of the version; nil if it is not known.
    func presentedSubitemDidResolveConflictVersion(at url: URL, identifier: String?) async
    /// The mount or the connection to it has ended. The presenter is no longer registered.
    func presentationDidEnd() async
}

/// Defaults: a presenter implements the calls it needs. The defaults agree to every request and ignore every
/// notification.
extension FilePresenter {
    public var primaryPresentedItemURL: URL? { get async { nil } }
    public var observedPresentedItemUbiquityAttributes: Set<UbiquitousItem.Key> {
        get async { [.isUbiquitousItem, .downloadingStatus, .isUploaded] }
    }
    public func relinquishPresentedItemToReader() async throws {}
    public func relinquishPresentedItemToWriter() async throws {}
    public func reacquirePresentedItem() async {}
    public func savePresentedItemChanges() async throws {}
    public func accommodatePresentedItemDeletion() async throws {}
    public func accommodatePresentedItemEviction() async throws {}
    public func accommodatePresentedSubitemDeletion(at url: URL) async throws {}
    public func presentedItemDidMove(to url: URL) async {}
    public func presentedItemDidChange() async {}
    public func primaryPresentedItemDidMove(to url: URL) async {}
    public func presentedItemDidChangeUbiquityAttributes(_ attributes: Set<UbiquitousItem.Key>) async {}
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
