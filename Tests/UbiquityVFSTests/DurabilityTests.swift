import Testing
import UbiquityContent
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

@Suite struct DurabilityTests {
    @Test func fsyncTellsTheIndexWhileTheFileStaysOpen() async throws {
        let container = try TestContainer()
        let ino = try container.create("a")
        let handle = try await container.open(ino, .readWrite)
        try container.write("synced", to: handle)
        #expect(try container.index.row(ino: ino)?.size == 0)
        try container.fs.sync(handle)
        let row = try #require(try container.index.row(ino: ino))
        #expect(row.size == 6)
        #expect(row.isWriting)
        try container.fs.syncDirectory()
        container.fs.release(handle)
        #expect(try container.index.row(ino: ino)?.generation == row.generation)
    }

    @Test func whatAWriterLeftIsFoundAfterADeath() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "before")
        _ = try await container.open(ino, .readWrite)
        // The handle is never released, as if the process had died here.
        #expect(try container.index.interruptedWriters().map(\.ino) == [ino])
    }

    @Test func everyErrorHasAnErrno() {
        for code in UbiquityError.Code.allCases {
            #expect(code.errno.rawValue > 0)
            #expect(Errno(describing: UbiquityError(code, "x")) == code.errno)
        }
        #expect(Errno(describing: CancellationError()) == .EINTR)
        #expect(Errno(describing: Errno.EXDEV) == .EXDEV)
        #expect(UbiquityError.Code.offline.errno == .ENETUNREACH)
        #expect(UbiquityError.Code.quotaExceeded.errno == .EDQUOT)
    }

    @Test func theSpaceIsThatOfTheDisk() throws {
        let container = try TestContainer()
        #expect(try container.fs.statistics().totalBytes > 0)
    }
}
