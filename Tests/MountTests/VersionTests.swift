import Foundation
import Glibc
import Testing
import UbiquityControl

/// Conflicts of two devices that were offline, and every way to resolve them.
@Suite struct VersionTests {
    static let folder = "Documents/.versions/report.txt"

    /// Two mounted devices with one document.
    func devices(_ world: World) async throws -> (a: Device, b: Device) {
        let (a, b) = (try await world.mounted("laptop"), try await world.mounted("desk"))
        try await a.shell("mkdir Documents; echo base > Documents/report.txt")
        try await world.settle(a, b)
        return (a, b)
    }

    /// Both edit it offline, `b` later; `b` uploads first.
    /// - Returns: the time of `a`'s save, which loses.
    @discardableResult
    func conflict(_ world: World, _ a: Device, _ b: Device, _ text: String) async throws -> String {
        try await world.meet(
            a, "echo 'a \(text)' > Documents/report.txt; stat -c %.9Y Documents/report.txt > ../saved",
            b, "echo 'b \(text)' > Documents/report.txt")
        #expect(try await b.shell("cat Documents/report.txt") == "b \(text)")
        #expect(try await conflicts(a).count == 1)
        #expect(try await conflicts(b).count == 1)
        return try await world.shell("cat '\(world.folder)/saved'")
    }

    private func conflicts(_ device: Device) async throws -> [String] {
        try await device.shell("ls \(Self.folder) | grep conflict || :").split(separator: "\n").map(String.init)
    }

    func report(_ device: Device) async throws -> [VersionReport] {
        let outcome = try await device.ubiquity("versions", "Documents/report.txt", options: ["--json"])
        try #require(outcome.status == 0, "\(outcome)")
        return try ControlCodec.decode(VersionsReport.self, from: outcome.text.utf8).versions
    }

    func expectResolved(_ devices: Device...) async throws {
        for device in devices {
            #expect(try await conflicts(device) == [], "\(device.name)")
            #expect(try await device.attribute("conflict-count", of: "Documents/report.txt") == "0")
            #expect(try await device.attribute("has-unresolved-conflicts", of: "Documents") == "0")
        }
    }

    @Test("VC-11: status shows conflicts and their size until they are resolved")
    func statusShowsConflicts() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            #expect(try await a.status().conflicts == nil)
            try await conflict(world, a, b, "1")
            for device in [a, b] {
                let expected = ConflictTotal(items: 1, versions: 1, bytes: 4, paths: ["Documents/report.txt"])
                #expect(try await device.status().conflicts == expected)
            }
            #expect(try await world.ubiquity("status").out.contains("1 item, 1 version, 4 B kept until you decide"))
            try await a.ubiquity("resolve", "Documents/report.txt")
            try await world.settle(a, b)
            for device in [a, b] { #expect(try await device.status().conflicts == nil) }
        }
    }

    @Test func removingTheVersionsFolderErasesNothing() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            try await conflict(world, a, b, "1")
            let removal = try await a.attempt("rm -r Documents/.versions")
            #expect(removal.status == 1 && removal.err.contains("Operation not permitted"), "\(removal)")
            try await world.settle(a, b)
            try await expectResolved(a, b)
            for device in [a, b] {
                #expect(try await device.shell("cat \(Self.folder)/*") == "base", "\(device.name)")
            }
            #expect(try await report(b).map(\.kind) == [.current, .resolved, .history])
        }
    }

    @Test func restoreToAReservedNameIsRefused() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("mkdir d; echo 1 > d/f")
            try await a.waitUntilIdle()
            try await a.shell("echo 2 > d/f")
            try await a.waitUntilIdle()
            let seen = try await a.shell(
                """
                v=$('\(World.program)' versions --json d/f | grep -o '"id":"[0-9a-f]*"' | tail -1 | cut -d'"' -f4)
                for to in d/.versions d/.versions/x .versions "$(printf 'x\\377')"; do
                    '\(World.program)' restore d/f $v --to "$to" > /dev/null 2>&1 && echo 0 || echo $?
                done
                find . -mindepth 1
                """)
            #expect(seen == "1\n1\n1\n2\n./d\n./d/f", "\(seen)")
        }
    }

    /// Expects the properties of a losing version.
    private func expectTold(_ name: String, savedAt time: String, _ devices: Device...) async throws {
        for device in devices {
            let lost = try #require(try await report(device).first { $0.kind == .conflict })
            let item = try await device.attribute("item-id", of: "Documents/report.txt")
            let told = try await device.attributes(of: "\(Self.folder)/\(name)")
            for (attribute, value) in [
                "display-name": "report.txt", "saving-device": "laptop", "is-conflict": "1", "is-resolved": "0",
                "version-id": lost.id, "item-id": item,
            ] { #expect(told[attribute] == value, "\(attribute) on \(device.name)") }
            #expect(try await device.shell("stat -c %.9Y '\(Self.folder)/\(name)'") == time, "\(device.name)")
        }
    }

    @Test func resolutionHoldsOnAllDevices() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            let time = try await conflict(world, a, b, "1")
            let name = try #require(try await conflicts(b).first)
            #expect(name.hasSuffix("Z laptop (conflict).txt"))
            let refused = try await b.attempt(
                "'\(World.program)' run --no-materialize -- cat '\(Self.folder)/\(name)'")
            #expect(refused.status == 1 && refused.err.contains("Resource deadlock avoided"), "\(refused)")
            #expect(try await b.shell("cat '\(Self.folder)/\(name)'; cp '\(Self.folder)/\(name)' Documents/copy.txt") == "a 1")
            #expect(try await b.attribute("conflict-count", of: ".") == "1")
            try await expectTold(name, savedAt: time, a, b)
            try await b.shell("rm '\(Self.folder)/\(name)'")
            try await world.settle(b, a)
            try await expectResolved(a, b)
            #expect(try await a.shell("cat Documents/copy.txt") == "a 1")

            try await conflict(world, a, b, "2")
            try await a.shell("setfattr -n user.ubiquity.resolved -v 1 \(Self.folder)/*conflict*")
            try await world.settle(a, b)
            try await expectResolved(a, b)

            try await conflict(world, a, b, "3")
            try await b.shell("mv \(Self.folder)/*conflict* Documents/report.txt; echo more >> Documents/report.txt")
            #expect(try await b.shell("cat Documents/report.txt") == "a 3\nmore")
            try await world.settle(b, a)
            try await expectResolved(a, b)
            try await a.waitUntil("test \"$(cat Documents/report.txt)\" = 'a 3\nmore'")

            try await conflict(world, a, b, "4")
            try await b.shell("mv \(Self.folder)/*conflict* 'Documents/mine.txt'")
            try await world.settle(b, a)
            try await expectResolved(a, b)
            for device in [a, b] {
                #expect(try await device.shell("cat Documents/mine.txt Documents/report.txt") == "a 4\nb 4")
                // The moved file has a number that was a version's.
                let doctor = try await device.ubiquity("doctor", "", options: ["--check"])
                #expect(doctor.status == 0, "\(doctor)")
            }
        }
    }

    /// A copy of the version over the file is an edit like any other: the conflict stays until somebody resolves it.
    @Test func copyOverTheFileResolvesNothing() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            try await conflict(world, a, b, "1")
            try await b.shell("cp \(Self.folder)/*conflict* Documents/report.txt")
            try await world.settle(b, a)
            for device in [a, b] {
                try await device.waitUntil("test \"$(cat Documents/report.txt)\" = 'a 1'")
                #expect(try await conflicts(device).count == 1, "\(device.name)")
                #expect(try await device.attribute("conflict-count", of: "Documents/report.txt") == "1")
            }
            try await a.shell("rm \(Self.folder)/*conflict*")
            try await world.settle(a, b)
            try await expectResolved(a, b)
            #expect(try await b.shell("cat Documents/report.txt") == "a 1")
        }
    }

    private static let refusedCalls = """
        file, versions = 'Documents/report.txt', 'Documents/.versions'
        folder = versions + '/report.txt'
        entries = sorted(os.listdir(folder))
        entry, content = folder + '/' + entries[0], open(file).read()
        for path in (versions, folder):
            fails('EPERM', lambda: open(path + '/x', 'w'))
            fails('EPERM', lambda: os.open(path, os.O_TMPFILE | os.O_RDWR))
            fails('EPERM', lambda: os.mkdir(path + '/x'))
            fails('EPERM', lambda: os.symlink('x', path + '/x'))
            fails('EPERM', lambda: os.link(file, path + '/x'))
            fails('EPERM', lambda: os.rename(file, path + '/x'))
        for path in (versions, folder, entry):
            fails('EPERM', lambda: renameat2(path, file, 2))
            fails('EPERM', lambda: renameat2(file, path, 2))
            fails('EPERM', lambda: os.chmod(path, 0o600))
            fails('EPERM', lambda: os.utime(path, (1, 1)))
            fails('EPERM', lambda: os.setxattr(path, 'user.x', b'1'))
            fails('EPERM', lambda: os.removexattr(path, 'user.x'))
        fails('EPERM', lambda: os.rename(versions, 'Documents/x'))
        fails('EPERM', lambda: os.rename(folder, 'Documents/x'))
        fails('EPERM', lambda: os.rename(entry, folder + '/x'))
        fails('EPERM', lambda: os.rename(entry, folder + '/' + entries[1]))
        fails('EPERM', lambda: os.link(entry, 'Documents/x'))
        fails('EPERM', lambda: open(entry, 'w'))
        fails('EPERM', lambda: open(entry, 'a'))
        fails('EPERM', lambda: os.truncate(entry, 0))
        fails('EPERM', lambda: os.rmdir(versions))
        fails('ENOTEMPTY', lambda: os.rmdir(folder))
        fails('ENOENT', lambda: os.stat(versions + '/none'))
        assert os.stat(entry).st_blocks == 1 and os.stat(entry).st_size == len(open(entry).read())
        assert os.listdir('Documents') == ['report.txt'] and open(file).read() == content
        assert sorted(os.listdir(folder)) == entries and len(entries) == 2
        """

    @Test func copyingProgramsSkipTheVersionsFolder() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            try await conflict(world, a, b, "x")
            try await b.shell("ls Documents/.versions/report.txt/* > /dev/null")
            let copies = world.folder + "/copies"
            try await b.shell(
                """
                mkdir '\(copies)'; cp -r Documents '\(copies)/cp'; rsync -a Documents/ '\(copies)/rsync'
                tar cf - Documents | tar xf - -C '\(copies)'
                git init -q .; git add .; git ls-files > '\(copies)/git'
                ls -laR . > '\(copies)/ls'; find . > '\(copies)/find'
                """)
            #expect(try await world.shell("cd '\(copies)'; grep -r versions . || :; find . -name .versions") == "")
            #expect(try await world.shell("ls -A '\(copies)/cp' '\(copies)/rsync' '\(copies)/Documents' | grep -c report") == "3")
            try await b.python(Self.refusedCalls)
            try await b.shell("rm -rf .git Documents")
            #expect(try await b.shell("ls -A") == "")
        }
    }

    @Test func resolutionsWorkOffline() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            try await conflict(world, a, b, "x")
            try await b.ubiquity("offline", "")
            // The conflict is visible without the cloud; a version that was not downloaded cannot be read.
            let read = try await b.attempt("cat \(Self.folder)/*conflict*")
            #expect(read.status != 0 && read.err.contains("Network is unreachable"))
            try await b.shell("rm \(Self.folder)/*conflict*")
            #expect(try await conflicts(b) == [])
            #expect(try await conflicts(a).count == 1)
            try await b.killAndMount()
            #expect(try await conflicts(b) == [])
            try await world.settle(b, a)
            try await expectResolved(a, b)
        }
    }

    @Test func commandsResolveRestoreAndUndelete() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            try await conflict(world, a, b, "1")
            #expect(try await report(a).map(\.kind) == [.current, .conflict, .history])
            #expect(try await b.ubiquity("resolve", "Documents/report.txt").status == 0)
            try await world.settle(b, a)
            try await expectResolved(a, b)
            #expect(try await report(a).map(\.kind) == [.current, .resolved, .history])

            try await conflict(world, a, b, "2")
            try await a.shell("setfattr -n user.color -v red Documents/report.txt; chmod 640 Documents/report.txt")
            #expect(try await a.ubiquity("resolve", "Documents/report.txt", options: ["--keep", "both"]).status == 0)
            try await world.settle(a, b)
            #expect(try await b.shell("cat 'Documents/report (laptop).txt' Documents/report.txt") == "a 2\nb 2")
            // Attributes belong to the file and not to a version: a copy beside the file starts with the file's
            // attributes.
            for name in ["report.txt", "report (laptop).txt"] {
                let shown = "getfattr --only-values -n user.color 'Documents/\(name)'; stat -c ' %a' 'Documents/\(name)'"
                #expect(try await b.shell(shown) == "red 640")
            }
            try await expectResolved(a, b)

            try await conflict(world, a, b, "3")
            let lost = try #require(try await report(b).first { $0.kind == .conflict }).id
            #expect(try await b.ubiquity("resolve", "Documents/report.txt", options: ["--keep", lost]).status == 0)
            try await world.settle(b, a)
            for device in [a, b] { try await device.waitUntil("test \"$(cat Documents/report.txt)\" = 'a 3'") }
            try await expectResolved(a, b)

            let first = try #require(try await report(a).last { $0.kind == .history }).id.prefix(10)
            let path = a.mountPoint + "/Documents/report.txt"
            let beside = try await world.ubiquity("restore", path, String(first), "--to", a.mountPoint + "/first.txt")
            #expect(beside.status == 0, "\(beside)")
            #expect(try await a.shell("cat first.txt") == "base")
            #expect(try await world.ubiquity("restore", path, "ffffffff").status == 1)
            #expect(try await world.ubiquity("restore", path, String(first)).status == 0)
            try await world.settle(a, b)
            for device in [a, b] { try await device.waitUntil("test \"$(cat Documents/report.txt)\" = base") }

            try await a.shell("rm -rf Documents; rm first.txt")
            try await world.settle(a, b)
            let listed = try await b.ubiquity("trash", "", options: ["list"])
            #expect(listed.status == 0 && listed.out.contains("Documents") && listed.out.contains("first.txt"))
            let back = try await world.ubiquity("trash", "restore", b.mountPoint + "/Documents")
            #expect(back.status == 0, "\(back)")
            #expect(try await world.ubiquity("trash", "restore", b.mountPoint + "/none").status == 1)
            try await world.settle(b, a)
            #expect(try await a.shell("cat Documents/report.txt; ls") == "base\nDocuments")
        }
    }

    @Test func refusedVersionCommandsNameTheReason() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            try await conflict(world, a, b, "1")
            let path = a.mountPoint + "/Documents/report.txt"
            func versions() async throws -> [VersionReport] {
                let outcome = try await world.ubiquity("versions", path, "--json")
                return try ControlCodec.decode(VersionsReport.self, from: outcome.text.utf8).versions
            }
            let current = try #require(try await versions().first { $0.kind == .current }).id
            let again = try await world.ubiquity("restore", path, current)
            #expect(again.status == 1 && again.err.contains("it is the current version"), "\(again)")
            #expect(try await world.ubiquity("resolve", "--keep", current, path).status == 0)
            try await world.settle(a, b)
            try await expectResolved(a, b)
            #expect(try await a.shell("cat Documents/report.txt") == "b 1")

            let first = try #require(try await versions().last { $0.kind == .history }).id
            let restored = try await world.ubiquity("restore", "--json", path, first)
            #expect(try ControlCodec.decode(RestoreReport.self, from: restored.text.utf8).path == path)
            for command in ["status", "versions", "download"] {
                let outcome = try await a.ubiquity(command, "Documents/.versions/report.txt")
                #expect(outcome.status == 1 && outcome.err.contains("name the file"), "\(outcome)")
            }
            let long = a.mountPoint + "/" + String(repeating: "n", count: 256)
            let tooLong = try await world.ubiquity("restore", path, first, "--to", long)
            #expect(tooLong.status == 1 && tooLong.err.contains("longer than 255 bytes"), "\(tooLong)")

            // No name controls the terminal, or makes two lines of one.
            let odd = a.mountPoint + "/odd\n\u{1B}[31m"
            try await a.python("open('odd\\n\\x1b[31m', 'w').write('1')")
            try await world.settle(a, b)
            var said = [try await world.ubiquity("versions", odd), try await world.ubiquity("resolve", odd)]
            said.append(try await world.ubiquity("restore", odd, "ffff"))
            try await a.shell("rm odd*")
            try await world.settle(a, b)
            said.append(try await a.ubiquity("trash", "", options: ["list"]))
            for outcome in said {
                #expect(!outcome.out.isEmpty || !outcome.err.isEmpty)
                #expect(!(outcome.out + outcome.err).contains("\u{1B}"), "\(outcome)")
                #expect(!(outcome.out + outcome.err).contains("odd\n"), "\(outcome)")
            }
        }
    }

    /// Its download takes longer than the kernel should keep the folders locked.
    @Test func slowlyDownloadedVersionIsMoved() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            try await conflict(world, a, b, "1")
            let item = try await b.attribute("item-id", of: "Documents/report.txt")
            func slowly(_ target: String, _ expected: String) async throws {
                let cloud = try #require(world.cloudProcess)
                kill(cloud, SIGSTOP)
                defer { kill(cloud, SIGCONT) }
                let move = try b.start("mv \(Self.folder)/*conflict* \(target); cat \(target)")
                try await Task.sleep(for: .seconds(4))
                kill(cloud, SIGCONT)
                #expect(try await move.finish(within: 90).text == expected)
            }
            try await slowly("Documents/report.txt", "a 1")
            #expect(try await b.attribute("item-id", of: "Documents/report.txt") == item)
            try await world.settle(b, a)
            try await expectResolved(a, b)
            try await conflict(world, a, b, "2")
            try await slowly("Documents/other.txt", "a 2")
            try await world.settle(b, a)
            try await expectResolved(a, b)
            for device in [a, b] { #expect(try await device.shell("cat Documents/other.txt Documents/report.txt") == "a 2\nb 2") }
        }
    }

    @Test func mergeCommandResolvesOrLeavesTheConflict() async throws {
        try await World.run { world in
            try await world.shell(
                """
                cd "$HOME"; mkdir -p .config/ubiquity
                echo 'merge.txt = sh "$HOME/merge"' > .config/ubiquity/config
                printf '%s\\n' 'test "$(cat "$1")" = base || exit 3' 'cat "$2" "$3" > "$4"' > merge
                """)
            let (a, b) = try await devices(world)
            for device in [a, b] { try await device.ubiquity("offline", "") }
            try await a.shell("echo 'a 1' > Documents/report.txt")
            try await b.shell("echo 'b 1' > Documents/report.txt")
            for device in [b, a] { try await device.ubiquity("online", "") }
            for device in [a, b] { try await device.waitUntil("test \"$(cat Documents/report.txt)\" = 'b 1\na 1'") }
            try await world.settle(a, b)
            try await expectResolved(a, b)

            // The common version is not "base" any more: the command fails.
            try await conflict(world, a, b, "2")
            try await world.eventually("the reason is shown") {
                try await a.ubiquity("versions", "Documents/report.txt").out.contains("not merged: the merge command failed")
            }
            #expect(try await conflicts(a).count == 1)
            #expect(try await a.shell("cat Documents/report.txt") == "b 2")

            // The same for a command that prints a lot, and removes its own files.
            try await world.shell("cd \"$HOME\"; echo 'rm -f log; yes noise | head -c 3000000; exit 5' > merge")
            for device in [a, b] { try await device.kill() }
            for device in [a, b] { try await device.mount() }
            try await world.eventually("the exit code is shown") {
                try await a.ubiquity("versions", "Documents/report.txt").out.contains("it ended with exit code 5: noise")
            }

            // A hanging command ends with the mount.
            try await world.shell("cd \"$HOME\"; echo 'echo $$ > \"$HOME/running\"; sleep 1000' > merge")
            for device in [a, b] { try await device.unmount() }
            try await a.mount()
            try await world.eventually("it hangs") { try await world.shell("cat \"$HOME/running\" || true").isEmpty == false }
            try await a.unmount()
            try await world.eventually("it has ended") {
                try await world.shell("kill -0 \"$(cat \"$HOME/running\")\" 2>&1 || true").contains("No such process")
            }
        }
    }

    /// The user was asked once and has answered: the command's result comes too late.
    @Test func resolutionDuringACommandWins() async throws {
        try await World.run { world in
            try await world.shell(
                """
                cd "$HOME"; mkdir -p .config/ubiquity
                echo 'merge.txt = sh "$HOME/merge"' > .config/ubiquity/config
                cat > merge <<'END'
                touch "$HOME/begun"
                for n in $(seq 600); do [ -e "$HOME/go" ] || sleep 0.05; done
                echo merged > "$4"
                END
                """)
            let (a, b) = try await devices(world)
            for device in [a, b] { try await device.ubiquity("offline", "") }
            try await a.shell("echo 'a 1' > Documents/report.txt")
            try await b.shell("echo 'b 1' > Documents/report.txt")
            for device in [b, a] { try await device.ubiquity("online", "") }
            try await world.eventually("it runs") { try await world.shell("ls \"$HOME\"").contains("begun") }
            #expect(try await a.ubiquity("resolve", "Documents/report.txt").status == 0)
            try await world.shell("touch \"$HOME/go\"")
            try await world.eventually("it has ended") {
                try await world.shell("ls '\(a.containerState)/staging/merge'").isEmpty
            }
            try await world.settle(a, b)
            for device in [a, b] { #expect(try await device.shell("cat Documents/report.txt") == "b 1") }
            try await expectResolved(a, b)
        }
    }

    /// A command ends when two have run at the same time. Never more than a few run, and never two for the same file.
    @Test func conflictsAreMergedConcurrently() async throws {
        try await World.run { world in
            try await world.shell(
                """
                cd "$HOME"; mkdir -p .config/ubiquity running
                echo 'merge.txt = sh "$HOME/merge"' > .config/ubiquity/config
                cat > merge <<'END'
                cd "$HOME/running"
                file=$(head -n 1 "$2"); mkdir "$file" || echo twice >> ../log
                for n in $(seq 1500); do
                    [ -e ../met ] || [ "$(ls | wc -l)" -ge 2 ] || { sleep 0.02; continue; }
                    break
                done
                touch ../met
                ls | wc -l >> ../log
                (cat "$2"; tail -n 1 "$3") > "$4"
                rmdir "$file"
                END
                """)
            let (a, b) = (try await world.mounted("laptop"), try await world.mounted("desk"))
            let files = "one.txt two.TXT three.txt four.txt five.txt six.Txt"
            try await a.shell("for f in \(files); do echo $f > $f; done")
            try await world.settle(a, b)
            try await b.shell("cat *.* > /dev/null")
            for device in [a, b] { try await device.ubiquity("offline", "") }
            for device in [a, b] { try await device.shell("for f in \(files); do echo \(device.name) >> $f; done") }
            try await b.ubiquity("online", "")
            try await b.waitUntilIdle()
            // Only the device whose versions lose is there to merge.
            try await b.ubiquity("offline", "")
            try await a.ubiquity("online", "")
            for file in files.split(separator: " ") {
                try await a.waitUntil("test \"$(cat \(file))\" = '\(file)\ndesk\nlaptop'")
            }
            try await a.waitFor("conflict-count", "0", of: ".")
            let log = try await world.shell("cat \"$HOME/log\"").split(separator: "\n")
            #expect(log.count == 6 && log.allSatisfy { ["1", "2", "3"].contains($0) }, "\(log)")
        }
    }

    /// Unclosed writes of a program are older than a later resolution.
    @Test func resolutionWinsOverUnclosedWrites() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            try await conflict(world, a, b, "1")
            let name = try #require(try await conflicts(a).first)
            let resolve = "'\(World.program)' resolve --keep '\(name)' Documents/report.txt"
            let seen = try await a.shell("exec 3<> Documents/report.txt; printf 'is held' >&3; \(resolve) 2>&1")
            #expect(seen.contains("closes it"), "\(seen)")
            try await world.settle(a, b)
            for device in [a, b] { #expect(try await device.shell("cat Documents/report.txt") == "a 1") }
            try await expectResolved(a, b)
            #expect(try await a.ubiquity("versions", "Documents/report.txt").text.contains("7 B"))
            // The same for a restoration; and later writes come after it.
            let again = try await a.shell(
                """
                v=$('\(World.program)' versions --json Documents/report.txt | tr '{' '\\n' | grep '"size":7' |
                    grep -o '"id":"[0-9a-f]*"' | cut -d'"' -f4)
                exec 3<> Documents/report.txt; printf more >&3; '\(World.program)' restore Documents/report.txt $v 2>&1
                printf later >&3
                """)
            #expect(again.contains("closes it"), "\(again)")
            try await world.settle(a, b)
            #expect(try await conflicts(a).count == 1)
        }
    }

    /// A program that had the file open for writing when the daemon died does not undo a resolution.
    @Test func resolutionSurvivesADaemonDeathUnderAWriter() async throws {
        try await World.run { world in
            let (a, b) = try await devices(world)
            try await conflict(world, a, b, "1")
            let name = try #require(try await conflicts(a).first)
            let holder = try a.start("exec 3<> Documents/report.txt; echo open; exec sleep 600")
            try await world.eventually("it has it open") { holder.outputSoFar == "open\n" }
            try await a.shell("'\(World.program)' resolve --keep '\(name)' Documents/report.txt")
            try await b.waitUntilIdle()
            #expect(try await b.shell("cat Documents/report.txt") == "a 1")
            try await a.kill()
            holder.signal(SIGKILL)
            try await a.mount()
            try await world.settle(a, b)
            for device in [a, b] { #expect(try await device.shell("cat Documents/report.txt") == "a 1") }
            try await expectResolved(a, b)
        }
    }

    /// An earlier version with the bytes of the current one is the current version already.
    @Test func restoreOfAnEqualVersionMakesNone() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            for text in ["one", "two", "one"] {
                try await a.shell("echo \(text) > f")
                try await world.settle(a)
            }
            let versions = try await a.ubiquity("versions", "f", options: ["--json"]).text
            let report = try ControlCodec.decode(VersionsReport.self, from: versions.utf8)
            let first = try #require(report.versions.last { $0.kind == .history }).id
            let outcome = try await a.attempt("'\(World.program)' restore f \(first)")
            #expect(outcome.status == 0 && !outcome.err.contains("edited"), "\(outcome)")
            #expect(try await a.shell("cat f") == "one")
            try await world.settle(a)
            #expect(try await a.ubiquity("versions", "f", options: ["--json"]).text == versions)
        }
    }

    @Test("LK-18: a restore asks presenters to save, and is complete when the command ends")
    func restoreIsACoordinatedWrite() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            for text in ["one", "two"] {
                try await a.shell("echo \(text) > f")
                try await world.settle(a)
            }
            let versions = try await a.ubiquity("versions", "f", options: ["--json"]).text
            let report = try ControlCodec.decode(VersionsReport.self, from: versions.utf8)
            let first = try #require(report.versions.first { $0.kind == .history }).id
            let second = try #require(report.versions.first { $0.kind == .current }).id
            let probe = try await LibraryProbe.start(a)
            try await probe.perform("watch f")
            #expect(try await a.shell("'\(World.program)' restore f \(first) > /dev/null; cat f") == "one")
            try await probe.waitUntilHeard("save")
            // The restoration waits for the holder of a claim, but not for its own parent's.
            let holder = try world.start(
                [World.program, "coordinate", "write", a.mountPoint + "/f", "--", "sh", "-c",
                 "'\(World.program)' restore '\(a.mountPoint)/f' \(second) && touch '\(world.folder)/done' && sleep 600"])
            try await a.waitUntil("test -e '\(world.folder)/done'")
            let other = try await a.attempt("'\(World.program)' restore f \(first)")
            #expect(other.status != 0 && other.err.contains("another program uses it"), "\(other)")
            holder.signal(SIGTERM)
        }
    }
}
