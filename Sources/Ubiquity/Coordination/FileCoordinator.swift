import FoundationEssentials
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Coordinates reads and writes of items with other programs that use them.
///
/// A coordinated read or write holds a claim on the item while its accessor runs. Readers share an item; a writer has
/// it alone. A package and its members count as one item. Presenters of the item act first: they save before a read,
/// release it before a write and accommodate a deletion. A program that does not coordinate takes part by opening files
/// in the mount.
///
/// Use one coordinator per operation; the operation may use several items. Claims of one coordinator never wait for
/// each other. So an operation that needs more items while it holds some must use the same coordinator, or claim all
/// items in one call. If two operations would wait for each other for ever, one of them gets
/// `FileCoordinationError.busy`.
///
/// Pass the presenter that acts, and the coordinator does not ask that presenter about its own access.
///
/// A coordinated read downloads the file first, unless its options ask for metadata only.
///
/// The accessor gets the item's current URL, because the item may move during the wait. The accessor uses ordinary file
/// calls. Items outside of all mounted containers are not coordinated. A cancelled task stops waiting and gets
/// `CancellationError`.
///
/// - Source: `NSFileCoordinator`.
public struct FileCoordinator: Sendable {
    /// How a coordinated read uses the item.
    public struct ReadingOptions: OptionSet, Hashable, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }
        /// Presenters are not asked to save first.
        public static let withoutChanges = ReadingOptions(rawValue: 1)
        /// The read follows a symlink to its target.
        public static let resolvesSymbolicLink = ReadingOptions(rawValue: 2)
        /// The read needs only metadata: nothing is downloaded and no presenter is asked.
        public static let immediatelyAvailableMetadataOnly = ReadingOptions(rawValue: 4)
        /// The accessor gets a copy of the item, which is removed afterwards. A folder or package becomes a zip
        /// archive. The claim ends as soon as the copy is made, so a long upload keeps no program waiting.
        public static let forUploading = ReadingOptions(rawValue: 8)
    }

    /// How a coordinated write uses the item; at most one option.
    public enum WritingOption: Hashable, Sendable {
        /// The item is about to be deleted.
        case forDeleting
        /// The item is about to be moved.
        case forMoving
        /// Presenters save first, so that the writer can merge their changes.
        case forMerging
        /// Another item replaces this one. Do not use it for a document's own save through a temporary file.
        case forReplacing
        /// The write changes only attributes that do not depend on the content.
        case contentIndependentMetadataOnly
    }

    /// Claims with the same identifier never wait for each other, even across programs.
    public let purposeIdentifier: String
    private let presenter: (any FilePresenter)?
    private let cancellation = CoordinatorCancellation()

    /// Makes a coordinator for one operation.
    ///
    /// - Parameters:
    ///   - filePresenter: The presenter that acts, if any. It is not asked about its own access.
    ///   - purposeIdentifier: Needed only if several coordinators or programs carry out one operation together.
    public init(filePresenter: (any FilePresenter)? = nil, purposeIdentifier: String? = nil) {
        presenter = filePresenter
        var random = SystemRandomNumberGenerator()
        self.purposeIdentifier = purposeIdentifier ?? "\(ProcessHost.id).\(random.next() as UInt64)"
    }

    // MARK: Presenters

    /// Registers a presenter until `removeFilePresenter`. Call it inside a coordinated read to miss no change.
    ///
    /// - Parameter presenter: The presenter of an item in a mounted container.
    /// - Throws: `FileCoordinationError`, for example if the item is not in a mounted container.
    public static func addFilePresenter(_ presenter: any FilePresenter) async throws {
        try await mapping { try await CoordinationHub.shared.add(presenter) }
    }

    /// Unregisters a presenter. Call it when the program no longer shows the item: a registered presenter is asked
    /// questions, and other programs wait for its answers.
    ///
    /// - Parameter presenter: The presenter to remove.
    public static func removeFilePresenter(_ presenter: any FilePresenter) async {
        await CoordinationHub.shared.remove(presenter)
    }

    /// The presenters this program has registered.
    public static var filePresenters: [any FilePresenter] {
        get async { await CoordinationHub.shared.presenters }
    }

    // MARK: Access

    /// Runs `accessor` while no coordinated writer has the item.
    ///
    /// - Parameters:
    ///   - url: The URL of the item.
    ///   - options: How the read uses the item.
    ///   - accessor: Gets the current URL of the item.
    /// - Throws: `FileCoordinationError`, or the error of `accessor`.
    public func coordinate<Result: Sendable>(
        readingItemAt url: URL, options: ReadingOptions = [], isolation: isolated (any Actor)? = #isolation,
        byAccessor accessor: (URL) async throws -> Result
    ) async throws -> Result {
        try await coordinate(with: [.readingIntent(with: url, options: options)]) { try await accessor($0[0]) }
    }

    /// Runs `accessor` while no other coordinated reader or writer has the item.
    ///
    /// - Parameters:
    ///   - url: The URL of the item.
    ///   - options: How the write uses the item.
    ///   - accessor: Gets the current URL of the item.
    /// - Throws: `FileCoordinationError`, or the error of `accessor`.
    public func coordinate<Result: Sendable>(
        writingItemAt url: URL, options: WritingOption? = nil, isolation: isolated (any Actor)? = #isolation,
        byAccessor accessor: (URL) async throws -> Result
    ) async throws -> Result {
        try await coordinate(with: [.writingIntent(with: url, options: options)]) { try await accessor($0[0]) }
    }

    /// Reads one item and writes another. Both are claimed at once, so two operations in opposite directions cannot
    /// deadlock.
    ///
    /// - Parameters:
    ///   - source: The URL of the item to read.
    ///   - reading: How the read uses it.
    ///   - target: The URL of the item to write.
    ///   - writing: How the write uses it.
    ///   - accessor: Gets the current URLs of the source and the target.
    /// - Throws: `FileCoordinationError`, or the error of `accessor`.
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

    /// Writes two items. The safest way to move an item: `.forMoving` for the source, `.forReplacing` for the target.
    ///
    /// - Parameters:
    ///   - source: The URL of the first item.
    ///   - options: How the write uses it.
    ///   - target: The URL of the second item.
    ///   - others: How the write uses the second item.
    ///   - accessor: Gets the current URLs in the same order.
    /// - Throws: `FileCoordinationError`, or the error of `accessor`.
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

    /// Claims up to 10,000 items at once. Inside the accessor, this coordinator's accesses to these items neither wait
    /// nor ask presenters, so one call prepares thousands of items. The accessor gets the URLs in the order of the
    /// intents.
    ///
    /// - Parameters:
    ///   - intents: The items, with the use of each.
    ///   - accessor: Gets the current URLs.
    /// - Throws: `FileCoordinationError`, or the error of `accessor`.
    public func coordinate<Result: Sendable>(
        with intents: [FileAccessIntent], isolation: isolated (any Actor)? = #isolation,
        byAccessor accessor: ([URL]) async throws -> Result
    ) async throws -> Result {
        let held = try await claim(intents)
        do {
            let snapshot = try await snapshot(of: held.places, for: intents)
            if intents.allSatisfy(\.takesSnapshot) { await held.end() }
            do {
                let result = try await accessor(snapshot.places)
                await snapshot.remove()
                await held.end()
                return result
            } catch {
                await snapshot.remove()
                throw error
            }
        } catch {
            await held.end()
            throw error
        }
    }

    private func snapshot(of places: [URL], for intents: [FileAccessIntent]) async throws -> UploadSnapshot {
        try await cancellation.run {
            try await Self.mapping { try await UploadSnapshot.take(of: places, for: intents) }
        }
    }

    private func claim(_ intents: [FileAccessIntent]) async throws -> CoordinationHub.HeldClaim {
        try await cancellation.run { [purposeIdentifier, presenter] in
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
    }

    /// Ends the waits of this coordinator: each gets `FileCoordinationError.userCancelled`, and so does every later
    /// access. An accessor that runs already runs to its end.
    public func cancel() { cancellation.cancel() }

    // MARK: Moves

    /// Announces that the accessor moves an item to another place. Needed only if the item leaves its container: the
    /// mount sees a rename within a container itself. `item(at:didMoveTo:)` follows once the move is done.
    ///
    /// - Parameters:
    ///   - oldURL: The URL of the item, which this coordinator claims for moving.
    ///   - newURL: The URL after the move.
    /// - Throws: `FileCoordinationError`, for example if the item does not exist.
    public func item(at oldURL: URL, willMoveTo newURL: URL) async throws {
        try await Self.mapping {
            try await CoordinationHub.shared.announceMove(of: oldURL, to: newURL, isDone: false)
        }
    }

    /// Announces that the accessor has moved an item. Presenters of the item get `presentedItemDidMove(to:)`.
    ///
    /// - Parameters:
    ///   - oldURL: The URL before the move, as `item(at:willMoveTo:)` got it.
    ///   - newURL: The URL of the item now.
    /// - Throws: `FileCoordinationError`, for example if the move was not announced before.
    public func item(at oldURL: URL, didMoveTo newURL: URL) async throws {
        try await Self.mapping {
            try await CoordinationHub.shared.announceMove(of: oldURL, to: newURL, isDone: true)
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
