package import UbiquityCore

// The texts of the reference of attributes, `Sources/Documentation/reference/attributes.md`.

extension StatusAttribute {
    package var explanation: (values: String, meaning: String) {
        switch self {
        case .isUbiquitous: ("0, 1", "1 if the item is synced.")
        case .downloadingStatus:
            (
                "`not-downloaded`, `downloaded`, `current`",
                "`not-downloaded`: a placeholder. `downloaded`: content is here, and a newer one exists. "
                    + "`current`: the newest content is here."
            )
        case .isDownloading: ("0, 1", "1 while content is being downloaded.")
        case .percentDownloaded: ("0 to 100", "The share of the bytes that are here.")
        case .downloadingError: ("text or empty", "The reason why the last download failed.")
        case .downloadRequested: ("0, 1", "1 if a download was requested and has not ended.")
        case .isUploaded: ("0, 1", "1 if the cloud has confirmed every change of the item.")
        case .isUploading: ("0, 1", "1 while the item is being uploaded.")
        case .percentUploaded: ("0 to 100", "The share of the bytes that the cloud has.")
        case .uploadingError: ("text or empty", "The reason why the last upload failed.")
        case .hasUnresolvedConflicts: ("0, 1", "1 if the item has an open conflict.")
        case .conflictCount: ("number", "The number of open conflicts.")
        case .isExcludedFromSync: ("0, 1", "1 if the item stays on this device: ignored, or in a `.nosync` folder.")
        case .isPackage: ("0, 1", "1 if the folder is a package.")
        case .isPinned: ("0, 1", "1 if the item stays on this device always.")
        case .itemID: ("id", "The identity of the item, the same on every device and across renames.")
        case .versionID: ("id or empty", "The version of the content on this device; empty while the content is new.")
        case .published: ("number", "The number of links to the item that are in force (`ubiquity publish`).")
        case .container:
            (
                "name",
                "The name of the container. On the top folder, `(signed out)` or `(documents off)` follows while the "
                    + "mount shows no account."
            )
        case .downloadingErrorCode: ("code or empty", "The code of `downloading-error`, see `errors.md`.")
        case .uploadingErrorCode: ("code or empty", "The code of `uploading-error`, see `errors.md`.")
        case .isSyncPaused: ("0, 1", "1 if a program has paused the sync of the file.")
        case .identityToken: ("text", "The token of the signed-in account. Only the top folder has it.")
        }
    }
}

extension ControlAttribute {
    package var explanation: (values: String, meaning: String) {
        switch self {
        case .download: ("1 or empty", "Downloads the item; a folder with all its items.")
        case .evict: ("1 or empty", "Removes the content from this device, if the cloud has it.")
        case .pinned: ("0, 1", "Pins or unpins the item. Removing the attribute unpins it too.")
        case .resolved:
            ("1", "Resolves the conflicts of a file or package; on a version file, that conflict.")
        }
    }
}

extension VersionAttribute {
    package var explanation: (values: String, meaning: String) {
        switch self {
        case .displayName: ("name", "The name that the file had when the version was saved.")
        case .savingDevice: ("name", "The device that saved the version.")
        case .isConflict: ("0, 1", "1 for a conflict version, 0 for an earlier version.")
        case .isResolved: ("0", "Always 0: a resolved conflict leaves the folder.")
        case .versionID: ("id", "The id of the version, as `ubiquity restore` takes it.")
        case .itemID: ("id", "The identity of the file.")
        case .downloadingError: ("text or empty", "Not empty while the saving device has not uploaded the content.")
        }
    }
}
