import Testing
import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// No call of a program bypasses the claims of clients.
@Suite struct ClaimedFileSystemTests {
    private let coordination = Coordination(
        isStrict: false, surroundings: NoSurroundings(), timekeeper: SystemTimekeeper())
    private let container: TestContainer
    private let ino: UInt64
    /// Without a client, programs wait for nobody.
    private let app: ClientID
    private let name = Array("a".utf8)
    private var fs: ClaimedFileSystem { container.fs }

    init() throws {
        container = try TestContainer(coordination: coordination)
        app = try #require(
            coordination.add(ClientDescription(name: "app", process: 1), answerTime: .seconds(60))).client
        ino = try container.create("a", "text")
        try container.create("b", "other")
    }

    /// Claims the file for writing, as an app does.
    private func claim() async throws -> ClaimID {
        let row = try #require(try container.index.row(ino: ino))
        return try await coordination.claim(
            ClaimRequest(owner: .client(app), intents: [ClaimIntent(row.claimTarget, .writing(nil))]))
    }

    /// Whether the call waits. A call that waits is withdrawn.
    private func waits<Value>(_ answer: Answer<Value>) async -> Bool {
        guard case .later(let work) = answer else { return false }
        let task = Task { _ = try await work() }
        task.cancel()
        if case .failure = await task.result { return true }
        return false
    }

    @Test func openOfClaimedFileWaits() async throws {
        let claim = try await claim()
        for flags in [[], .readWrite, [.writeOnly, .truncate]] as [OpenFlags] {
            #expect(await waits(try fs.open(ino, flags: flags, caller: container.caller)))
        }
        coordination.end(claim)
        #expect(try await container.content(of: ino) == "text")
    }

    @Test func changeOfClaimedNameWaits() async throws {
        let claim = try await claim(), caller = container.caller, other = Array("b".utf8)
        let second = try #require(try container.lookup("b")).ino
        #expect(
            await waits(
                try fs.create(parent: 1, name: name, mode: 0o644, flags: [.readWrite, .create], caller: caller)))
        #expect(await waits(try fs.makeDirectory(parent: 1, name: name, mode: 0o755, caller: caller)))
        #expect(await waits(try fs.makeSymlink(parent: 1, name: name, target: other, caller: caller)))
        #expect(await waits(try fs.makeNode(parent: 1, name: name, mode: 0o100644, caller: caller)))
        #expect(await waits(try fs.link(second, newParent: 1, newName: name, caller: caller)))
        #expect(await waits(try fs.unlink(parent: 1, name: name, caller: caller)))
        #expect(await waits(try fs.removeDirectory(parent: 1, name: name, caller: caller)))
        #expect(
            await waits(try fs.rename(parent: 1, name: name, newParent: 1, newName: other, flags: 0, caller: caller)))
        #expect(
            await waits(try fs.rename(parent: 1, name: other, newParent: 1, newName: name, flags: 0, caller: caller)))
        coordination.end(claim)
        #expect(try container.names() == ["a", "b"])
    }

    @Test func changeOfClaimedAttributesWaits() async throws {
        let claim = try await claim(), caller = container.caller, note = Array("user.note".utf8)
        #expect(await waits(try fs.setAttributes(of: ino, AttributeChanges(size: 0), caller: caller)))
        #expect(await waits(try fs.setAttributes(of: ino, AttributeChanges(mode: 0o600), caller: caller)))
        #expect(await waits(try fs.setXattr(of: ino, name: note, value: [1], flags: 0, caller: caller)))
        #expect(await waits(try fs.removeXattr(of: ino, name: note, caller: caller)))
        coordination.end(claim)
        #expect(try container.lookup("a")?.size == 4)
    }

    /// The claim of a handle ends with its release.
    @Test func releaseEndsClaimOfHandle() async throws {
        let handle = try await container.open(ino, .readWrite)
        let row = try #require(try container.index.row(ino: ino))
        #expect(coordination.writers(of: row.claimTarget).count == 1)
        fs.release(handle)
        #expect(coordination.writers(of: row.claimTarget).isEmpty)
    }
}
