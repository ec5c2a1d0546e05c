/// Which folders are packages: folders that are one document to the person who has them.
///
/// A folder is one by the extension of its name, or because it is marked; a mark with "0" takes it back. What lies in a
/// package, other packages too, belongs to the outermost one.
package struct PackageRules: Sendable, Hashable {
    /// In lower case, without the dot.
    private let extensions: Set<[UInt8]>

    /// The attribute that marks a folder. It is stored and travels, unlike the others that begin so.
    package static let mark = Array("user.ubiquity.package".utf8)

    /// - Parameter extensions: with or without the dot; upper and lower case of ASCII's letters are one.
    package init(extensions: some Sequence<String>) {
        self.extensions = Set(extensions.map { Self.lowercased($0.utf8.drop { $0 == UInt8(ascii: ".") }) })
    }

    private static func lowercased(_ bytes: some Sequence<UInt8>) -> [UInt8] {
        bytes.map { (65...90).contains($0) ? $0 + 32 : $0 }
    }

    /// Well-known document bundles.
    package static let standardExtensions = [
        // Documents and media libraries.
        "rtfd", "key", "pages", "numbers", "band", "logicx", "textbundle", "scriv", "graffle", "mindnode", "epub",
        "photoslibrary", "photolibrary", "aplibrary", "migratedphotolibrary", "imovielibrary", "fcpbundle", "theater",
        "musiclibrary", "tvlibrary", "dvdproj", "docset", "sparsebundle", "pvm", "vmwarevm", "utm",
        // Of developers.
        "xcodeproj", "xcworkspace", "xcdatamodeld", "playground", "nib", "xcarchive",
        // Programs.
        "app", "bundle", "framework", "plugin", "kext", "prefpane", "saver", "qlgenerator", "wdgt", "workflow", "pkg",
        "mpkg",
    ]
    package static let standard = PackageRules(extensions: standardExtensions)

    /// Whether a folder of that name and with those attributes is one document.
    package func isPackage(_ name: ItemName, _ xattrs: [Xattr]) -> Bool {
        if let mark = xattrs.first(where: { $0.name == Self.mark }) { return mark.value == [UInt8(ascii: "1")] }
        let suffix = name.stemAndExtension.suffix.dropFirst()
        guard !suffix.isEmpty else { return false }
        return extensions.contains(Self.lowercased(suffix))
    }
}
