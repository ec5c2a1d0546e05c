import Testing
import UbiquityCore

/// Lookups of folders and members in a package's list.
@Suite struct PackageMemberTests {
    private func tree(_ paths: [String]) -> PackageTree {
        PackageTree(
            paths.map { path in
                PackageMember(
                    path: path.split(separator: "/").map { ItemName(stored: Array($0.utf8)) },
                    kind: path.hasSuffix("/") ? .directory : .file, mode: 0o644, createdAt: .zero, modifiedAt: .zero)
            })
    }

    private func names(_ tree: PackageTree, _ path: String) -> [String] {
        tree.children(of: path.split(separator: "/").map { ItemName(stored: Array($0.utf8)) }).map {
            $0.path.map { String(decoding: $0.bytes, as: UTF8.self) }.joined(separator: "/")
        }
    }

    @Test func folderListsItsDirectMembers() {
        let tree = tree(["b/", "b/c/", "b/c/d", "b.txt", "b-", "a", "b/e", "b/c/f/", "z/"])
        #expect(names(tree, "") == ["a", "b", "b-", "b.txt", "z"])
        #expect(names(tree, "b") == ["b/c", "b/e"])
        #expect(names(tree, "b/c") == ["b/c/d", "b/c/f"])
        #expect(names(tree, "b/c/f").isEmpty && names(tree, "a").isEmpty && names(tree, "b/x").isEmpty)
        #expect(names(self.tree([]), "").isEmpty)
    }

    @Test func everyMemberIsFoundAndNothingElse() {
        let tree = tree((0..<300).flatMap { ["f\($0)/", "f\($0)/x", "f\($0)/y"] })
        for member in tree.members { #expect(tree.member(at: member.path) == member) }
        for path in [["f300"], ["f0", "z"], ["f0", "x", "x"], [], [""]] {
            #expect(tree.member(at: path.map { ItemName(stored: Array($0.utf8)) }) == nil)
        }
        #expect(tree.children(of: []).count == 300)
        #expect(tree.children(of: [ItemName(stored: Array("f7".utf8))]).count == 2)
    }
}
