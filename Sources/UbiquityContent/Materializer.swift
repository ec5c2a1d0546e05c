package import UbiquityCore

/// Who fills a placeholder. The file system asks, the sync engine answers.
package protocol Materializer: Sendable {
    /// Begins or joins the download of the item's current remote version; returns as soon as the backing file exists
    /// and the manifest is known. Each call is one interest in the content, given back with `release`.
    /// - Throws: `.offline`, `.notUploadedYet`, `.noSpace`, `.notFound`, `.timedOut`, `.damaged`, `.signedOut`.
    func begin(_ key: ItemKey) async throws -> PartialContent

    /// Waits until the bytes are here, and has them fetched before others. A cancelled waiter drops its interest in
    /// the range and gets `CancellationError`.
    func fill(_ content: PartialContent, _ range: Range<Int64>) async throws

    /// An opener that called `begin` is done with it. When nobody wants the content any more, its background download
    /// stops; what is here stays.
    func release(_ content: PartialContent)

    /// If all bytes of the item's content are here, the index says so when this returns, and not a moment later: who
    /// has read a file to its end may go on with it as with one that was always here.
    func finishIfComplete(_ key: ItemKey) throws

    /// The same for who has had the content filled: also if its download has ended since, as one does that failed after
    /// its last byte.
    func finishIfComplete(_ content: PartialContent, of key: ItemKey) throws

    /// Starts a background download that nobody waits for (an explicit request); it goes on without openers.
    func request(_ key: ItemKey)
}
