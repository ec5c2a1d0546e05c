package import UbiquityCore

extension UbiquityError.Code {
    /// The meaning and the remedy in the reference of errors, `Sources/Documentation/reference/errors.md`.
    package var explanation: (meaning: String, remedy: String) {
        switch self {
        case .offline:
            ("The cloud cannot be reached, or the mount is offline.", "Check the network; `ubiquity online`.")
        case .timedOut: ("The cloud did not answer in time.", "Try again.")
        case .damaged:
            ("The content is damaged, and no good source is left.", "`ubiquity doctor`; restore an earlier version.")
        case .io: ("A disk or a database failed.", "Read the log (`ubiquity log`) and the kernel's messages.")
        case .newerFormat: ("A newer version of the program wrote the data.", "Install the newer version.")
        case .noSpace: ("This device has no space left.", "Free some space, or evict files.")
        case .quotaExceeded:
            (
                "The account has no space left, or has stored three times its quota in all.",
                "Delete files, wait until earlier versions expire, or raise the quota of the account."
            )
        case .signedOut: ("The device is signed out, or the cloud refuses its token.", "`ubiquity login`.")
        case .stale: ("The file that was open or named is gone.", "Open it again by its path.")
        case .notFound: ("No such item.", "Check the path.")
        case .alreadyExists: ("The name is taken.", "Choose another name.")
        case .notDirectory: ("A part of the path is not a folder.", "Check the path.")
        case .isDirectory: ("The item is a folder.", "Name a file.")
        case .directoryNotEmpty: ("The folder is not empty.", "Remove its items first.")
        case .busy: ("The item is open, changed, or being uploaded.", "Close it; `ubiquity wait --uploaded`.")
        case .inUse: ("Another process holds a resource that only one may hold.", "End the other process.")
        case .notPermitted: ("The operation is not allowed on this item.", "The message names the rule.")
        case .accessDenied: ("The permissions of the item or of the account forbid it.", "Change the permissions.")
        case .notUploadedYet:
            ("The device that wrote the content has not uploaded it yet.", "Wait; the content arrives by itself.")
        case .wouldBlock: ("The operation would have to wait.", "Try again.")
        case .noSuchAttribute: ("The attribute does not exist or has no value.", "`getfattr -d` lists the attributes.")
        case .nameTooLong: ("A name has more than 255 bytes, or a path too many folders.", "Shorten it.")
        case .invalidName: ("The name is not UTF-8.", "Rename the file, for example with `convmv`.")
        case .invalid: ("An argument or a request is not valid.", "The message names the argument.")
        case .tooLarge: ("The file, or a message, is beyond a limit.", "The message names the limit.")
        case .notSupported: ("The file system does not have this operation.", "See the differences in `semantics.md`.")
        case .crossesContainers:
            ("The rename or link would cross the border of synced items.", "Copy the item; `mv` does so by itself.")
        case .interrupted: ("A signal ended the wait.", "Repeat the operation.")
        case .cancelled: ("The operation was cancelled.", "Repeat the operation.")
        case .tooManyOpenFiles: ("Too many files are open.", "Raise the limit of open files.")
        case .feedCompacted: ("The feed no longer reaches back that far.", "None: the device reads the whole listing.")
        case .missingChunks: ("The cloud lacks chunks that a commit names.", "None: the device uploads them again.")
        case .outdatedCommit: ("The cloud has a later commit of this device.", "None: the device reads the feed.")
        case .packageConflict:
            ("Another device changed the package meanwhile.", "None: the device compares both states.")
        case .tooManyRequests: ("The account has too many requests under way.", "None: the device waits and repeats.")
        }
    }
}
