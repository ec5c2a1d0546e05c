import Testing
import UbiquityCore

/// Recognition of packages by name and mark.
@Suite struct PackageRulesTests {
    private func isPackage(_ name: String, _ rules: PackageRules = .standard, mark: String? = nil) throws -> Bool {
        let xattrs = mark.map { [Xattr(name: PackageRules.mark, value: Array($0.utf8))] } ?? []
        return try rules.isPackage(ItemName(name), xattrs)
    }

    @Test(arguments: ["rtfd", "key", "pages", "numbers", "band", "photoslibrary", "sparsebundle", "xcodeproj"])
    func documentBundlesArePackages(_ suffix: String) throws {
        let mixed = suffix.prefix(1).uppercased() + suffix.dropFirst()
        for spelling in [suffix, suffix.uppercased(), mixed] {
            for name in ["a.\(spelling)", "My work.v2.\(spelling)", ".hidden.\(spelling)"] {
                #expect(try isPackage(name), "\(name)")
            }
        }
    }

    /// A name whose only dot is its first character has no extension.
    @Test(arguments: [
        "a.txt", "a", "key", "rtfd", ".rtfd", ".key", "a.rtfd.txt", "a.rtf", "a.rtfdx", "a.xrtfd", "a.rtfd.", "a.rtfd ",
        "a.", "a-key", "a.pages~", "a.ke\u{301}y",
    ])
    func otherFoldersAreNoPackages(_ name: String) throws { #expect(try !isPackage(name)) }

    @Test func configuredExtensionsAreAdded() throws {
        let rules = PackageRules(extensions: PackageRules.standardExtensions + ["Box", ".dot", "ÄB"])
        for name in ["a.box", "a.BOX", "a.Box", "a.rtfd", "a.XCODEPROJ", "a.dot", "a.ÄB", "a.Äb"] {
            #expect(try isPackage(name, rules), "\(name)")
        }
        for name in ["box", ".box", "a.box.txt", "a.txt"] { #expect(try !isPackage(name, rules), "\(name)") }
        #expect(try !isPackage("a.box"))
        let own = PackageRules(extensions: ["box"])
        #expect(try isPackage("a.box", own) && !isPackage("a.rtfd", own))
        #expect(try !isPackage("a.", PackageRules(extensions: [""])))
    }

    @Test func markOverridesTheName() throws {
        #expect(try isPackage("folder", mark: "1") && isPackage(".rtfd", mark: "1"))
        #expect(try !isPackage("a.rtfd", mark: "0") && !isPackage("folder", mark: "0"))
        let other = Xattr(name: Array("user.other".utf8), value: Array("0".utf8))
        #expect(try PackageRules.standard.isPackage(ItemName("a.rtfd"), [other]))
        #expect(try !PackageRules.standard.isPackage(ItemName("folder"), [other]))
    }
}
