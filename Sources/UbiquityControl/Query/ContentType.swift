/// Media types of items, from their names. Reading a content to find its type would download it.
package enum ContentType {
    package static let folder = "inode/directory"
    package static let package = "application/x-package"
    package static let unknown = "application/octet-stream"

    /// The type of an item: as the desktop's database of media types names it.
    ///
    /// - Parameter kind: "file", "directory", "symlink" or "special".
    package static func of(_ name: String, kind: String, isPackage: Bool = false) -> String {
        switch kind {
        case "directory": isPackage ? package : folder
        case "symlink": "inode/symlink"
        case "file": byExtension[MetadataRecord.suffix(of: name).lowercased()] ?? unknown
        default: "inode/x-special"
        }
    }

    private static let byExtension: [String: String] = Dictionary(
        types.flatMap { type, extensions in extensions.split(separator: " ").map { (String($0), type) } }
    ) { first, _ in first }

    /// Common types. The first extension is the usual one.
    private static let types: [(String, String)] = [
        ("text/plain", "txt text log conf ini cfg"), ("text/markdown", "md markdown"), ("text/html", "html htm"),
        ("text/css", "css"), ("text/csv", "csv"), ("text/calendar", "ics"), ("text/vcard", "vcf"), ("text/rtf", "rtf"),
        ("text/x-tex", "tex"), ("text/xml", "xml"), ("text/javascript", "js mjs"), ("text/x-python", "py"),
        ("text/x-csrc", "c h"), ("text/x-c++src", "cpp cc cxx hpp"), ("text/x-swift", "swift"), ("text/x-java", "java"),
        ("text/rust", "rs"), ("text/x-go", "go"), ("text/tab-separated-values", "tsv"),
        ("application/x-shellscript", "sh bash"), ("application/json", "json"), ("application/yaml", "yaml yml"),
        ("application/toml", "toml"), ("application/sql", "sql"), ("application/pdf", "pdf"),
        ("application/postscript", "ps eps"), ("application/epub+zip", "epub"), ("application/msword", "doc"),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
        ("application/vnd.ms-excel", "xls"),
        ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
        ("application/vnd.ms-powerpoint", "ppt"),
        ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
        ("application/vnd.oasis.opendocument.text", "odt"),
        ("application/vnd.oasis.opendocument.spreadsheet", "ods"),
        ("application/vnd.oasis.opendocument.presentation", "odp"),
        ("application/vnd.oasis.opendocument.graphics", "odg"), ("application/vnd.apple.pages", "pages"),
        ("application/vnd.apple.numbers", "numbers"), ("application/vnd.apple.keynote", "key"),
        ("application/zip", "zip"), ("application/gzip", "gz tgz"), ("application/x-bzip2", "bz2"),
        ("application/x-xz", "xz"), ("application/zstd", "zst"), ("application/x-tar", "tar"),
        ("application/x-7z-compressed", "7z"), ("application/vnd.rar", "rar"),
        ("application/vnd.sqlite3", "sqlite sqlite3 db"), ("application/vnd.debian.binary-package", "deb"),
        ("application/x-iso9660-image", "iso"), ("application/vnd.appimage", "appimage"),
        ("application/x-blender", "blend"), ("application/gpx+xml", "gpx"), ("image/jpeg", "jpg jpeg jpe"),
        ("image/png", "png"), ("image/gif", "gif"), ("image/webp", "webp"), ("image/heic", "heic heif"),
        ("image/avif", "avif"), ("image/tiff", "tif tiff"), ("image/bmp", "bmp"), ("image/svg+xml", "svg"),
        ("image/x-xcf", "xcf"), ("image/vnd.adobe.photoshop", "psd"), ("image/x-canon-cr2", "cr2"),
        ("image/x-nikon-nef", "nef"), ("image/x-sony-arw", "arw"), ("image/x-adobe-dng", "dng"),
        ("image/vnd.djvu", "djvu"), ("audio/mpeg", "mp3"), ("audio/mp4", "m4a"), ("audio/ogg", "ogg oga opus"),
        ("audio/flac", "flac"), ("audio/x-wav", "wav"), ("audio/midi", "mid midi"), ("video/mp4", "mp4 m4v"),
        ("video/x-matroska", "mkv"), ("video/webm", "webm"), ("video/quicktime", "mov"), ("video/x-msvideo", "avi"),
        ("video/mpeg", "mpg mpeg"), ("font/ttf", "ttf"), ("font/otf", "otf"), ("font/woff2", "woff2"),
        ("model/stl", "stl"), ("model/gltf+json", "gltf"), ("message/rfc822", "eml"),
    ]
}
