import FoundationEssentials
import UbiquityControl
import UbiquityCore

/// An item and how a coordinated access uses it.
///
/// - Source: `NSFileAccessIntent`.
public struct FileAccessIntent: Hashable, Sendable {
    /// The URL of the item. Inside the accessor it is the current one.
    public let url: URL
    let use: ClaimItem.Use
    let options: [String]

    var readsContent: Bool {
        use == .read && !options.contains { ReadingOptions(named: $0) == .immediatelyAvailableMetadataOnly }
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
    /// The raw values are the same; a test verifies that.
    var names: [String] { UbiquityCore.ReadingOptions(rawValue: rawValue).names }
}

extension FileCoordinator.WritingOption {
    var name: String { option.rawValue }

    private var option: UbiquityCore.WritingOption {
        switch self {
        case .forDeleting: .forDeleting
        case .forMoving: .forMoving
        case .forMerging: .forMerging
        case .forReplacing: .forReplacing
        case .contentIndependentMetadataOnly: .contentIndependentMetadataOnly
        }
    }
}
