/// Limits of the web page.
enum WebLimits {
    /// Items on one page of a folder. More would make a browser slow.
    static let items = 200
    /// Rows on other pages.
    static let rows = 200
    /// Results of one search.
    static let results = 200
    /// Accounts on the owner's page; the figures of each are computed for every page.
    static let accounts = 20
    /// Items that one request deletes, with all that is below them.
    static let deletedItems = 20_000
    /// Items in one zip archive.
    static let zippedItems = 50_000
    /// A session ends after this time without a request, and after this time in all.
    static let idleSession: Duration = .seconds(12 * 3600)
    static let longestSession: Duration = .seconds(7 * 24 * 3600)
    /// Sessions in all and of one account. A new one ends the one that was used least recently.
    static let sessions = 10_000
    static let sessionsPerAccount = 100
    /// Bytes of a form without files, and its fields.
    static let formBytes = 64 * 1024
    static let formFields = 1000
    /// Bytes of the heading of one part of an upload.
    static let partHeader = 8 * 1024
    /// Files in one upload.
    static let uploadedFiles = 1000
    /// Bytes of a picture that is shown. A larger one is only downloaded.
    static let shownPicture: Int64 = 32 << 20
    /// Bytes of a picture that is shown in a list.
    static let smallPicture: Int64 = 8 << 20
    /// Bytes of a text that is shown, and of each of two texts that are compared.
    static let shownText: Int64 = 256 << 10
    /// Lines of each of two texts that are compared, after their common beginning and end.
    static let comparedLines = 2000
    /// Equal lines shown around a difference.
    static let contextLines = 3
    /// Tries to find a free number for the name of an uploaded file.
    static let numberedNames = 1000
}
