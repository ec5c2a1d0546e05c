/// The routes of the local socket. A request with data is a POST with a JSON body.
package enum ControlRoute {
    /// The name of the socket in a container's state folder.
    package static let socketName = "control.sock"

    /// A header of every request: the name of the app. The configuration may restrict an app to some containers. Then
    /// the answer for another container is 403 with `accessDenied`.
    package static let appHeader = "ubiquity-app"

    /// GET: a `MountStatus`.
    package static let status = "/v1/status"
    /// POST `PathsRequest`: one `ItemReport` or failed `ItemResult` a line.
    package static let itemStatus = "/v1/items/status"
    /// POST `PathsRequest`: one `ItemResult` a line, each as soon as it is known.
    package static let download = "/v1/items/download"
    /// The same with an `EvictRequest`.
    package static let evict = "/v1/items/evict"
    package static let pin = "/v1/items/pin"
    package static let unpin = "/v1/items/unpin"
    /// POST `SyncControlRequest`: a `SyncControlReport`.
    package static let syncControl = "/v1/items/sync"
    /// POST `PathsRequest` with one path: a `VersionsReport`.
    package static let versions = "/v1/versions"
    /// The name of the folder in a container's state folder for contents that a client passes to the daemon.
    package static let incomingName = "incoming"
    /// POST `VersionAddition`: a `VersionReport`.
    package static let addVersion = "/v1/versions/add"
    /// POST `VersionChange`: a `VersionReport`.
    package static let changeVersion = "/v1/versions/change"
    /// POST `ResolveRequest`: a `ResolveReport`.
    package static let resolve = "/v1/versions/resolve"
    /// POST `RestoreRequest`: a `RestoreReport`.
    package static let restore = "/v1/versions/restore"
    /// POST `TrashRequest`: a `TrashReport`.
    package static let trash = "/v1/trash"
    /// POST `TrashRestoreRequest`: a `TrashRestoreReport`.
    package static let trashRestore = "/v1/trash/restore"
    /// POST `PublishRequest`: a `PublishReport`, when the item is uploaded.
    package static let publish = "/v1/publish"
    /// POST `PublishedRequest`: a `PublishedReport`.
    package static let published = "/v1/publish/list"
    /// POST `UnpublishRequest`: an `Acknowledgement`.
    package static let unpublish = "/v1/publish/revoke"
    /// POST `DeletionsRequest`: a `DeletionsReport`.
    package static let deletions = "/v1/deletions"
    /// POST `DoctorRequest`: a `DoctorReport`.
    package static let doctor = "/v1/doctor"
    /// POST without a body: an `Acknowledgement`.
    package static let offline = "/v1/offline"
    package static let online = "/v1/online"
    /// POST `LogRequest`: a `LogReport`.
    package static let log = "/v1/log"
    /// POST `ClientRegistration`: a server-sent stream of `ClientNews`. The client is removed when the stream ends.
    package static let clients = "/v1/clients"
    /// POST `ClientLeave`: an `Acknowledgement`. The client's claims are released by then.
    package static let leave = "/v1/clients/leave"
    /// POST `PresenterRegistration`: a `PresenterReport`.
    package static let presenters = "/v1/presenters"
    /// POST `PresenterRemoval` and `PresenterAnswer`: an `Acknowledgement`.
    package static let removePresenter = "/v1/presenters/remove"
    package static let answer = "/v1/presenters/answer"
    /// POST `MoveAnnouncement`: an `Acknowledgement`.
    package static let moves = "/v1/presenters/moves"
    /// POST `ClaimMessage`: a line with a `ClaimReport` when it is granted or refused; empty lines before.
    package static let claims = "/v1/claims"
    /// POST `ClaimEnd`: an `Acknowledgement`.
    package static let endClaim = "/v1/claims/end"
    /// POST `AccountRequest`: an `AccountReport` once the mount shows the account of the device.
    package static let account = "/v1/account"
    /// GET: a `CoordinationStatus`.
    package static let coordination = "/v1/coordination"
    /// GET: a `KeyValueList`. POST without a body: the same, after an exchange with the cloud.
    package static let keyValues = "/v1/kv/{store}"
    /// GET: a `KeyValueReport`. PUT `KeyValueWrite` and DELETE: the same, after the set is on the disk.
    package static let keyValue = "/v1/kv/{store}/{key}"
    /// GET: a server-sent stream of `ControlEvent`.
    package static let events = "/v1/events"
    /// POST `QueryRequest`: a server-sent stream of `QueryNews`.
    package static let queries = "/v1/queries"
    /// POST `WaitRequest`: a line with a `WaitReport` when the condition holds or the time is over; empty lines before.
    package static let wait = "/v1/wait"
    /// POST `StopRequest`: a `StopReport` once the mount is gone; then the process ends.
    package static let stop = "/v1/stop"
}

/// The answer to a request that has no other result than its success.
package struct Acknowledgement: Codable, Hashable, Sendable {
    package var done: Bool
    package init(done: Bool = true) { self.done = done }
}
