package import UbiquityCore

/// Fills placeholders. The file system calls it, and the sync engine implements it.
package protocol Materializer: Sendable {
    /// Begins or joins the download of the item's current remote version. Returns as soon as the backing file exists
    /// and the manifest is known. Release each call's interest in the content with `release`.
    /// - Throws: `.offline`, `.notUploadedYet`, `.noSpace`, `.notFound`, `.timedOut`, `.damaged`, `.signedOut`.
    func begin(_ key: ItemKey) async throws -> PartialContent

    /// Waits until the bytes are present, and gives them priority. A cancelled waiter drops its interest in the range
    /// and gets `CancellationError`.
    func fill(_ content: PartialContent, _ range: Range<Int64>) async throws

    /// Ends the interest of a caller of `begin`. When no caller wants the content any more, its download stops. Present
    /// bytes remain.
    func release(_ content: PartialContent)

    /// If the item's content is complete, records that in the index before it returns. Then a program that has read the
    /// file to its end finds it like any local file.
    func finishIfComplete(_ key: ItemKey) throws

    /// The same for a caller of `fill`, also if the download has ended since, for example by a failure after its last
    /// byte.
    func finishIfComplete(_ content: PartialContent, of key: ItemKey) throws

    /// Starts a background download on explicit request. It continues without openers.
    func request(_ key: ItemKey)
}
