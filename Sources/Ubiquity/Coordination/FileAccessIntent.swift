import FoundationEssentials
import UbiquityControl

/// An item and how a coordinated access uses it.
///
/// - Source: `NSFileAccessIntent`.
public struct FileAccessIntent: Hashable, Sendable {
    /// The URL of the item. Inside the accessor it is the current one.
    public let url: URL
    let use: ClaimItem.Use
    let options: [String]

    var readsContent: Bool {
        use == .read && !options.contains(FileCoordinator.ReadingOptions.immediatelyAvailableMetadataOnly.names[0])
    }

    /// An intent to read the item.
    ///
    /// - Parameter url: The URL of the item.
    /// - Parameter options: How the read uses the item.
    public static func readingIntent(with url: URL, options: FileCoordinator.ReadingOptions = []) -> FileAccessIntent {
        FileAccessIntent(url: url, use: .read, options: options.names)
    }

    /// An intent to write the item.
    ///
    /// - Parameter url: The URL of the item.
    /// - Parameter options: How the write uses the item.
    public static func writingIntent(with url: URL, options: FileCoordinator.WritingOption? = nil) -> FileAccessIntent {
        FileAccessIntent(url: url, use: .write, options: options.map { [$0.name] } ?? [])
    }
}

extension FileCoordinator.ReadingOptions {
    var names: [String] {
        let all: [(FileCoordinator.ReadingOptions, String)] = [
            (.withoutChanges, "without-changes"), (.resolvesSymbolicLink, "resolves-symbolic-link"),
            (.immediatelyAvailableMetadataOnly, "immediately-available-metadata-only"),
            (.forUploading, "for-uploading"),
        ]
        return all.filter { contains($0.0) }.map(\.1)
    }
}

extension FileCoordinator.WritingOption {
    var name: String {
        switch self {
        case .forDeleting: "for-deleting"
        case .forMoving: "for-moving"
        case .forMerging: "for-merging"
        case .forReplacing: "for-replacing"
        case .contentIndependentMetadataOnly: "content-independent-metadata-only"
        }
    }
}
