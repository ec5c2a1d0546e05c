import Testing
internal import UbiquityContent
import UbiquityCore
import UbiquitySync
import UbiquitySystem
import UbiquityTestSupport

/// Versions that programs add, in a folder of their own.
@Suite struct AppVersionTests {
    private let key = ItemKey(7)

    private func version(
        _ number: UInt64, size: Int64 = 4, isDiscardable: Bool = false, at time: Int64 = 0, of key: ItemKey? = nil
    ) throws -> AppVersion {
        AppVersion(
            id: VersionID(high: 1, low: number), item: key ?? self.key, origin: .manual, isDiscardable: isDiscardable,
            name: try ItemName("note.txt"), size: size, modifiedAt: Timestamp(seconds: 5, nanoseconds: 6),
            savedAt: Timestamp(seconds: time, nanoseconds: 0), device: DeviceID(high: 2, low: 3),
            deviceName: "laptop \u{1F600}\n")
    }

    private func add(_ version: AppVersion, to versions: AppVersions, in folder: String, _ text: String = "text") throws {
        let content = folder + "/content"
        try FileDescriptor.open(content, [.writeOnly, .create, .exclusive]).write(Array(text.utf8))
        try versions.add(version, content: content)
    }

    @Test("VC-16: an added version is listed after a restart, with its kind, and can be read and removed")
    func life() throws {
        try TemporaryFolder.with { folder in
            let versions = AppVersions(folder: folder + "/versions"), added = try version(1)
            try versions.load { _ in true }
            try add(added, to: versions, in: folder)
            let again = AppVersions(folder: folder + "/versions")
            try again.load { $0 == key }
            #expect(again.versions(of: key) == [added] && again.items == [key] && again.hasVersions(key))
            #expect(added.listed.kind == .history && added.listed.content.isAvailable)
            let file = try #require(try again.open(added.id))
            let content = try PartialContent(id: ContentID(1), whole: file)
            #expect(content.isComplete && content.size == 4)
            #expect(try content.file.read(count: 4, at: 0) == Array("text".utf8))
            #expect(try again.setDiscardable(added.id, true).isDiscardable)
            #expect(again.remove(added.id) && !again.remove(added.id) && !again.hasVersions(key))
            #expect(try FileSystem.entries(of: folder + "/versions").isEmpty)
        }
    }

    @Test("an interrupted addition leaves nothing after the next start, nor does an item that is gone")
    func interrupted() throws {
        try TemporaryFolder.with { folder in
            let versions = AppVersions(folder: folder + "/versions"), other = ItemKey(8)
            try add(try version(1), to: versions, in: folder)
            try add(try version(2, of: other), to: versions, in: folder)
            let place = "\(folder)/versions/7/\(VersionID(high: 1, low: 1))"
            try FileSystem.unlink(place + ".version")
            try FileDescriptor.open("\(folder)/versions/7/strange", [.writeOnly, .create]).write([1])
            let again = AppVersions(folder: folder + "/versions")
            try again.load { $0 == key }
            #expect(again.items.allSatisfy { again.versions(of: $0).isEmpty })
            #expect(try FileSystem.entries(of: folder + "/versions").map(\.text) == ["7"])
            #expect(try FileSystem.entries(of: folder + "/versions/7").isEmpty)
        }
    }

    @Test("beyond the limits the oldest versions go, discardable ones first")
    func limits() throws {
        try TemporaryFolder.with { folder in
            let versions = AppVersions(folder: folder + "/versions")
            for number in 0..<AppVersions.maximumPerItem {
                let isDiscardable = number == 50
                try add(
                    try version(UInt64(number), isDiscardable: isDiscardable, at: Int64(number)), to: versions, in: folder)
            }
            try add(try version(1000, at: 1000), to: versions, in: folder)
            #expect(versions.version(VersionID(high: 1, low: 50)) == nil)
            try add(try version(1001, at: 1001), to: versions, in: folder)
            #expect(versions.version(VersionID(high: 1, low: 0)) == nil)
            #expect(versions.versions(of: key).count == AppVersions.maximumPerItem)
            // The recorded sizes count.
            try add(try version(2000, size: AppVersions.maximumBytes, of: ItemKey(9)), to: versions, in: folder)
            #expect(versions.items == [ItemKey(9)])
            #expect(throws: UbiquityError.self) {
                try add(try version(3000, size: AppVersions.maximumBytes + 1), to: versions, in: folder)
            }
        }
    }
}
