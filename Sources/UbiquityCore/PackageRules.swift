/// Which folders are packages: folders that users see as one document.
///
/// A folder is a package by the extension of its name, or by its mark; a mark with "0" overrides the extension.
/// Everything in a package, including other packages, belongs to the outermost one.
package struct PackageRules: Sendable, Hashable {
    /// In lower case, without the dot.
    private let extensions: Set<[UInt8]>

    /// The attribute that marks a folder. Unlike the other attributes with this prefix it is stored and synced.
    package static let mark = Array("\(StatusAttribute.prefix)package".utf8)

    /// - Parameter extensions: With or without the dot; the case of ASCII letters is ignored.
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
        // Developers' files.
        "xcodeproj", "xcworkspace", "xcdatamodeld", "playground", "nib", "xcarchive",
        // Programs.
        "app", "bundle", "framework", "plugin", "kext", "prefpane", "saver", "qlgenerator", "wdgt", "workflow", "pkg",
        "mpkg",
    ]
    package static let standard = PackageRules(extensions: standardExtensions)

    /// Returns whether a folder with that name and those attributes is a package.
    package func isPackage(_ name: ItemName, _ xattrs: [Xattr]) -> Bool {
        if let mark = xattrs.first(where: { $0.name == Self.mark }) { return mark.value == [UInt8(ascii: "1")] }
        let suffix = name.stemAndExtension.suffix.dropFirst()
        guard !suffix.isEmpty else { return false }
        return extensions.contains(Self.lowercased(suffix))
    }
}
