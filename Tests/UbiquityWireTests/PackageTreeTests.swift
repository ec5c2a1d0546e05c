import Testing
import UbiquityCore
import UbiquityWire

/// The state of a package as the content of a version.
@Suite struct PackageTreeTests {
    private func name(_ text: String) throws -> ItemName { try ItemName(text) }

    private func chunk(_ number: UInt8, _ length: Int) throws -> ChunkReference {
        ChunkReference(id: try #require(ChunkID(bytes: [UInt8](repeating: number, count: 32))), length: length)
    }

    private func tree() throws -> PackageTree {
        let time = Timestamp(nanoseconds: 5)
        return PackageTree([
            PackageMember(
                path: [try name("images"), try name("one")], kind: .file, mode: 0o644, createdAt: time, modifiedAt: time,
                xattrs: [Xattr(name: Array("user.x".utf8), value: [1])], version: VersionID(high: 1, low: 1), size: 30,
                manifest: [try chunk(1, 10), try chunk(2, 20)]),
            PackageMember(path: [try name("images")], kind: .directory, mode: 0o755, createdAt: time, modifiedAt: time),
            PackageMember(
                path: [try name("empty")], kind: .file, mode: 0o600, createdAt: time, modifiedAt: time,
                version: VersionID(high: 1, low: 2)),
            PackageMember(
                path: [try name("link")], kind: .symlink, mode: 0o777, createdAt: time, modifiedAt: time,
                linkTarget: Array("empty".utf8)),
            PackageMember(
                path: [try name("text")], kind: .file, mode: 0o644, createdAt: time, modifiedAt: time,
                version: VersionID(high: 1, low: 3), size: 7, manifest: [try chunk(3, 7)]),
        ])
    }

    @Test func treeSurvivesRoundTrip() throws {
        let tree = try tree(), head = try tree.head()
        let length = try PackageTree.listLength(Array(head.prefix(PackageTree.headLength)))
        #expect(head.count == PackageTree.headLength + length)
        let manifest = [try chunk(9, 40), try chunk(8, head.count - 40)] + tree.manifest
        let list = Array(head.dropFirst(PackageTree.headLength))
        #expect(try PackageTree(list: list, manifest) == tree)
        #expect(tree.members.map { $0.path.count } == [1, 1, 2, 1, 1])
        // Equal states are one version, in whatever order a device lists the members.
        #expect(try PackageTree(tree.members.reversed()).head() == head)
    }

    @Test func treeWithoutChunksOrFoldersIsRefused() throws {
        let tree = try tree(), head = try tree.head(), list = Array(head.dropFirst(PackageTree.headLength))
        let first = [try chunk(9, head.count)]
        #expect(throws: UbiquityError.self) { try PackageTree(list: list, first + tree.manifest.dropLast()) }
        let wrong = [try chunk(1, 11)] + Array(tree.manifest.dropFirst())
        #expect(throws: UbiquityError.self) { try PackageTree(list: list, first + wrong) }
        let orphan = PackageTree(tree.members.filter { $0.kind != .directory })
        let other = Array(try orphan.head().dropFirst(PackageTree.headLength))
        #expect(throws: UbiquityError.self) { try PackageTree(list: other, first + tree.manifest) }
        #expect(throws: UbiquityError.self) { try PackageTree.listLength([UInt8](repeating: 1, count: 16)) }
    }
}
