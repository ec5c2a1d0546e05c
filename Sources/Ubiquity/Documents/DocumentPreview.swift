public import FoundationEssentials
import UbiquityCore
import UbiquitySystem

/// The preview of a document: a small file in the container's folder `Previews`. It has the place and name of the
/// document in `Documents`, and the extension "preview": `Documents/trip/note1.note` has the preview
/// `Previews/trip/note1.note.preview`.
///
/// Devices fetch previews of at most 64 KiB as soon as they know of them. So a list of documents can show them while
/// the documents are placeholders. Read them in a coordinated read; it downloads only the preview.
///
/// - Source: this library; the session "Advanced iCloud Document Storage" of 2012 advises it.
public enum DocumentPreview {
    /// The folder of previews, unless the configuration names another (`previews = FOLDER`).
    public static let standardFolder = "Previews"
    private static let documents = "Documents"
    private static let suffix = ".preview"

    /// Returns the URL of a document's preview; nil if the document is not in a folder `Documents` of a container or of
    /// a plain folder with the same layout.
    ///
    /// - Parameters:
    ///   - document: The URL of the document.
    ///   - folder: The name of the folder of previews.
    public static func url(for document: URL, folder: String = standardFolder) -> URL? {
        let path = document.systemPath
        guard path.hasPrefix("/") else { return nil }
        // Outside of containers the innermost `Documents` counts.
        let root = (try? MountFinder.find(path)).flatMap { $0 }.map { String(decoding: $0.mountPoint, as: UTF8.self) }
        var names = path.split(separator: "/").map(String.init)
        let start = root.map { $0.split(separator: "/").count } ?? names.dropLast().lastIndex(of: documents)
        guard let start, start < names.count - 1, names[start] == documents, let name = names.last else { return nil }
        names[start] = folder
        names[names.count - 1] = name + suffix
        return URL(filePath: "/" + names.joined(separator: "/"), directoryHint: .notDirectory)
    }

    /// Writes a preview, in a coordinated write of its own. The document should be saved already.
    ///
    /// - Parameters:
    ///   - preview: The content of the preview.
    ///   - document: The URL of the document.
    ///   - folder: The name of the folder of previews.
    /// - Throws: `UbiquitousFileError`: `.fileWriteInvalidFileName` if the document has no preview by `url(for:)`.
    public static func write(_ preview: Data, for document: URL, folder: String = standardFolder) async throws {
        guard let place = url(for: document, folder: folder) else {
            throw UbiquitousFileError(
                .fileWriteInvalidFileName, "the document is in no folder 'Documents': \(document.path)")
        }
        let bytes = Array(preview)
        try await mappingFileErrors(isWriting: true) {
            // A claim needs an existing folder.
            try await FileAccess.run {
                try describing("make the folder of previews", at: place.path) { () throws(Errno) in
                    try FileSystem.makeDirectories(Path.parent(of: place.systemPath), mode: 0o755)
                }
            }
            try await FileCoordinator().coordinate(writingItemAt: place, options: .forReplacing) { place in
                let path = place.systemPath
                try await FileAccess.run {
                    // A preview that is the same would only be uploaded again.
                    if try FileSystem.exists(path), try SafeFile.read(path) == bytes { return }
                    let staged = try SafeFile.stage(near: path) { file throws(Errno) in try file.write(bytes) }
                    try SafeFile.publish(staged, at: path)
                }
            }
        }
    }
}
