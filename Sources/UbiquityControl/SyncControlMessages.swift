/// `ControlRoute.syncControl`: controls the sync of one file.
package struct SyncControlRequest: Codable, Hashable, Sendable {
    package enum Action: String, Codable, CaseIterable, Hashable, Sendable {
        /// Neither sends nor replaces the file's content until it is resumed.
        case pause
        case resume
        /// Sends the content, also of a paused file, and answers when the cloud has it.
        case upload
        /// Fetches the cloud's present version beside the file.
        case fetch
    }

    package var path: String
    package var action: Action
    /// For `upload` and `resume`: refuses if the cloud has a version that the file is not based on.
    package var failsOnConflict: Bool?

    package init(path: String, action: Action, failsOnConflict: Bool? = nil) {
        self.path = path
        self.action = action
        self.failsOnConflict = failsOnConflict
    }
}

package struct SyncControlReport: Codable, Hashable, Sendable {
    package var isPaused: Bool
    /// Whether the request was refused because of a conflict. Nothing was done then.
    package var isConflict: Bool
    /// The cloud's present version, for `upload` and `fetch`.
    package var version: VersionReport?
    /// For `fetch`: the name of the content in the folder `ControlRoute.incomingName` of the state folder. The client
    /// removes it.
    package var content: String?

    package init(
        isPaused: Bool, isConflict: Bool = false, version: VersionReport? = nil, content: String? = nil
    ) {
        self.isPaused = isPaused
        self.isConflict = isConflict
        self.version = version
        self.content = content
    }
}
