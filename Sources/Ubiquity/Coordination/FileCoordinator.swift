import FoundationEssentials
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Reads and writes items without disturbing others who use them, and without being disturbed.
///
/// A coordinated read or write holds a claim on the item for as long as its accessor runs: readers share an item, a
/// writer has it alone, and a package counts as one with all that is in it. Programs that present the item act first:
/// they save before a read, let go before a write, accommodate a deletion. Programs that know nothing of this take part
/// by opening files in the mount.
///
/// One coordinator is for one operation, which may use several items. Its claims never wait for each other; so an
/// operation that claims more while it holds something must do so by the same coordinator, or claim all of it in one
/// call. Two operations that would wait for each other for ever are told: one of them gets
/// `FileCoordinationError.busy`.
///
/// Give the presenter on whose behalf it is, and that presenter is not asked about its own access.
///
/// A file that is read is downloaded first, unless only metadata is wanted.
///
/// The accessor gets the item's place anew, because the item may have been moved while it was waited for. What is done
/// with it are ordinary calls. Items outside of any mounted container are coordinated with nobody. A cancelled task
/// stops waiting, and gets `CancellationError`.
public struct FileCoordinator: Sendable {
    /// How an item is going to be read.
    public struct ReadingOptions: OptionSet, Hashable, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }
        /// Nobody is asked to save first.
        public static let withoutChanges = ReadingOptions(rawValue: 1)
        /// What a symlink leads to is read, and not the link.
        public static let resolvesSymbolicLink = ReadingOptions(rawValue: 2)
        /// Only what can be known without the content: nothing is downloaded, and nobody is asked.
        public static let immediatelyAvailableMetadataOnly = ReadingOptions(rawValue: 4)
        /// A snapshot is taken.
        public static let forUploading = ReadingOptions(rawValue: 8)
    }

    /// What a writer is going to do; at most one.
    public enum WritingOption: Hashable, Sendable {
        case forDeleting
        case forMoving
        /// Others save first, so that their changes can be taken into account.
        case forMerging
        /// Another item takes its place. (Not for a document's own saving by a temporary file.)
        case forReplacing
        /// Attributes that say nothing of the content.
        case contentIndependentMetadataOnly
    }

    /// Claims of one purpose never wait for each other, also when several programs make them.
    public let purposeIdentifier: String
    private let presenter: (any FilePresenter)?

    /// - Parameters:
    ///   - filePresenter: On whose behalf it is.
    ///   - purposeIdentifier: Only for an operation that several coordinators, or programs, carry out together.
    public init(filePresenter: (any FilePresenter)? = nil, purposeIdentifier: String? = nil) {
        presenter = filePresenter
        var random = SystemRandomNumberGenerator()
        self.purposeIdentifier = purposeIdentifier ?? "\(ProcessHost.id).\(random.next() as UInt64)"
    }

    // MARK: Presenters

    /// Has the presenter take part until `removeFilePresenter`. Done inside a coordinated read, no change is missed.
    public static func addFilePresenter(_ presenter: any FilePresenter) async throws {
        try await mapping { try await CoordinationHub.shared.add(presenter) }
    }

    /// To be called when the item is not shown any more: a presenter that stays is asked, and holds others up.
    public static func removeFilePresenter(_ presenter: any FilePresenter) async {
        await CoordinationHub.shared.remove(presenter)
    }

    /// This program's presenters.
    public static var filePresenters: [any FilePresenter] {
        get async { await CoordinationHub.shared.presenters }
    }

    // MARK: Access

    /// Runs `accessor` while nobody writes the item.
    public func coordinate<Result: Sendable>(
        readingItemAt url: URL, options: ReadingOptions = [], isolation: isolated (any Actor)? = #isolation,
        byAccessor accessor: (URL) async throws -> Result
    ) async throws -> Result {
        try await coordinate(with: [.readingIntent(with: url, options: options)]) { try await accessor($0[0]) }
    }

    /// Runs `accessor` while nobody else reads or writes the item.
    public func coordinate<Result: Sendable>(
        writingItemAt url: URL, options: WritingOption? = nil, isolation: isolated (any Actor)? = #isolation,
        byAccessor accessor: (URL) async throws -> Result
    ) async throws -> Result {
        try await coordinate(with: [.writingIntent(with: url, options: options)]) { try await accessor($0[0]) }
    }

    /// Reads one item and writes another, both from the beginning: two that do so the other way round never wait for
    /// each other.
    public func coordinate<Result: Sendable>(
        readingItemAt source: URL, options reading: ReadingOptions = [], writingItemAt target: URL,
        options writing: WritingOption? = nil, isolation: isolated (any Actor)? = #isolation,
        byAccessor accessor: (URL, URL) async throws -> Result
    ) async throws -> Result {
        let intents: [FileAccessIntent] = [
            .readingIntent(with: source, options: reading), .writingIntent(with: target, options: writing),
        ]
        return try await coordinate(with: intents) { try await accessor($0[0], $0[1]) }
    }

    /// Writes two items. The safest way to move one: `.forMoving` the source, `.forReplacing` the target.
    public func coordinate<Result: Sendable>(
        writingItemAt source: URL, options: WritingOption? = nil, writingItemAt target: URL,
        options others: WritingOption? = nil, isolation: isolated (any Actor)? = #isolation,
        byAccessor accessor: (URL, URL) async throws -> Result
    ) async throws -> Result {
        let intents: [FileAccessIntent] = [
            .writingIntent(with: source, options: options), .writingIntent(with: target, options: others),
        ]
        return try await coordinate(with: intents) { try await accessor($0[0], $0[1]) }
    }

    /// Claims any number of items in one, up to 10,000. Coordinated accesses to them by this coordinator, inside the
    /// accessor, wait for nothing and ask nobody: so thousands of items are prepared at once. The accessor gets the
    /// places in the order of the intents.
    public func coordinate<Result: Sendable>(
        with intents: [FileAccessIntent], isolation: isolated (any Actor)? = #isolation,
        byAccessor accessor: ([URL]) async throws -> Result
    ) async throws -> Result {
        let held = try await claim(intents)
        do {
            let result = try await accessor(held.places)
            await held.end()
            return result
        } catch {
            await held.end()
            throw error
        }
    }

    private func claim(_ intents: [FileAccessIntent]) async throws -> CoordinationHub.HeldClaim {
        try await Self.mapping {
            let held = try await CoordinationHub.shared.claim(
                intents, purpose: purposeIdentifier, presenter: presenter)
            do {
                try await held.download(for: intents)
                return held
            } catch {
                await held.end()
                throw error
            }
        }
    }

    private static func mapping<Result: Sendable>(_ body: @Sendable () async throws -> Result) async throws -> Result {
        do { return try await body() } catch let error as UbiquityError {
            throw FileCoordinationError(error)
        } catch let error as MountUnreachable {
            throw FileCoordinationError.unavailable(reason: error.description)
        }
    }
}
