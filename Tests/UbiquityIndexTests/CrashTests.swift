import Glibc
import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport

/// `kill -9` at any moment: acknowledged changes survive, and every other change is complete or absent.
///
/// The victim is this test's own executable, started with the name of a folder in its environment. It writes there
/// until it is killed.
@Suite(.serialized, .timeLimit(.minutes(2))) struct CrashTests {
    private static let variable = "UBIQUITY_INDEX_VICTIM"
    private static var victimFolder: String? { getenv(variable).map { String(cString: $0) } }

    // MARK: The victim

    /// Far more changes than happen before the kill; the victim ends by itself if its parent is gone.
    private static let victimChanges = 1_000_000

    /// Writes until it is killed, and logs each acknowledged change in a file.
    @Test(.enabled(if: victimFolder != nil)) func victim() throws {
        let folder = try #require(Self.victimFolder)
        let index = try ItemIndex(
            path: Path.join(folder, "index.db"), timekeeper: SystemTimekeeper(), random: SystemRandom())
        let log = try FileDescriptor.open(Path.join(folder, "log"), [.writeOnly, .create, .append])
        let random = SeededRandom(UInt64(getpid()))
        let folderIno = try index.child(of: .root, named: ItemName("d"))?.ino
            ?? index.create(in: 1, named: ItemName("d"), NewItem(kind: .directory, mode: 0o755, uid: 0, gid: 0)).ino
        var number = Int64(getpid()) << 32
        for _ in 0..<Self.victimChanges {
            number += 1
            let name = try ItemName("f\(number)")
            let content = ContentID(try index.newContentNumber())
            let row = try index.create(
                in: folderIno, named: name, NewItem(kind: .file, mode: 0o644, uid: 0, gid: 0, content: content))
            try log.write(Array("\(number) \(row.ino) \(content.rawValue)\n".utf8))
            switch random.below(3) {
            case 0: _ = try index.rename(from: folderIno, name, to: folderIno, ItemName("doc"), .replacing)
            case 1: try index.setXattr(ino: row.ino, Xattr(name: Array("user.x".utf8), value: [1]), .any)
            default: break
            }
            if random.below(50) == 0 { try index.checkpoint() }
        }
    }

    // MARK: The kill

    @Test(.enabled(if: victimFolder == nil)) func killedAtRandomMoments() throws {
        let folder = try TemporaryFolder()
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<5 {
            let child = try startVictim(folder, fault: nil)
            let goal = try lines(folder).count + Int.random(in: 1...300, using: &generator)
            let end = ContinuousClock.now + .seconds(60)
            while try lines(folder).count < goal, ContinuousClock.now < end { usleep(500) }
            #expect(try lines(folder).count >= goal, "the victim does not work")
            kill(child, SIGKILL)
            try bury(child)
            try examine(folder)
        }
    }

    @Test(
        .enabled(if: victimFolder == nil),
        arguments: [
            "index.committing:kill:1", "index.committing:kill:2", "index.committing:kill:40", "index.committed:kill:17",
            "index.gathered:kill:1", "index.gathered:kill:9",
        ])
    func killedAroundACommit(_ fault: String) throws {
        let folder = try TemporaryFolder()
        try bury(try startVictim(folder, fault: fault))
        try examine(folder)
    }

    /// Starts this executable again, with its own arguments and environment.
    private func startVictim(_ folder: TemporaryFolder, fault: String?) throws -> pid_t {
        let program = try FileSystem.readLink("/proc/self/exe")
        var arguments = try commandLine().prefix { $0 != "--filter" && $0 != "--skip" }
        if !arguments.contains("--testing-library") { arguments += ["--testing-library", "swift-testing"] }
        arguments += ["--filter", "CrashTests/victim"]
        var list = arguments.map { strdup($0) } + [nil]
        var environment = ["\(Self.variable)=\(folder.path)", "PATH=/usr/bin:/bin"]
        if let library = getenv("LD_LIBRARY_PATH") { environment.append("LD_LIBRARY_PATH=\(String(cString: library))") }
        if let fault { environment.append("UBIQUITY_FAULT=\(fault)") }
        var variables = environment.map { strdup($0) } + [nil]
        defer { for text in list + variables { free(text) } }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 1, folder("output"), O_WRONLY | O_CREAT | O_APPEND, 0o600)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        var child: pid_t = 0
        let result = posix_spawn(&child, String(decoding: program, as: UTF8.self), &actions, nil, &list, &variables)
        guard result == 0 else { throw Errno(rawValue: result) }
        return child
    }

    private func commandLine() throws -> [String] {
        let bytes = try #require(try SmallFile.read("/proc/self/cmdline", limit: 1 << 20))
        return bytes.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
    }

    private func bury(_ child: pid_t) throws {
        var status: Int32 = 0
        #expect(waitpid(child, &status, 0) == child)
        #expect(status & 0x7F == SIGKILL, "the victim ended by itself")
    }

    /// Whole lines only: the last may be truncated.
    private func lines(_ folder: TemporaryFolder) throws -> [[Int64]] {
        let bytes = try SmallFile.read(folder("log"), limit: 1 << 26) ?? []
        let text = bytes.prefix((bytes.lastIndex(of: UInt8(ascii: "\n")) ?? -1) + 1)
        return text.split(separator: UInt8(ascii: "\n")).map { line in
            String(decoding: line, as: UTF8.self).split(separator: " ").compactMap { Int64($0) }
        }
    }

    private func examine(_ folder: TemporaryFolder) throws {
        let index = try ItemIndex(path: folder("index.db"), timekeeper: ManualTime(), random: SeededRandom(1))
        #expect(throws: Never.self) { try index.read { try $0.checkInvariants() } }
        var numbers = Set<Int64>()
        for line in try lines(folder) {
            // Every content number was given once, in whatever life. Each acknowledged content exists, or was renamed
            // over "doc" (then it exists, or was replaced in turn).
            #expect(numbers.insert(line[2]).inserted)
            let row = try index.read { try $0.row(key: ItemKey(line[1])) }
            #expect(
                row?.entry?.name.description == "f\(line[0])" || row?.isDeleted == true
                    || row?.entry?.name.description == "doc")
        }
        #expect(!numbers.contains(try index.newContentNumber()))
        try index.close()
    }
}
