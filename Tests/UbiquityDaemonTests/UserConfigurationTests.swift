import Testing
import UbiquityCore
@testable import UbiquityDaemon

@Suite struct UserConfigurationTests {
    @Test func mergeCommandsAreFoundByExtension() throws {
        let configuration = UserConfiguration(
            """
            # merge.c = no
              merge.txt =  git merge-file = "$2"

            merge.=nothing
            merge.md
            merge.OdT = odt
            merge.empty =
            other = merge.x
            """)
        func command(_ name: String) throws -> String? { configuration.mergeCommand(for: try ItemName(name)) }
        #expect(try command("report.txt") == "git merge-file = \"$2\"")
        #expect(try command("a.b.txt") != nil)
        // Extensions ignore case, as for packages.
        for name in ["REPORT.TXT", "Report.Txt"] { #expect(try command(name) == "git merge-file = \"$2\"") }
        for name in ["a.odt", "a.ODT"] { #expect(try command(name) == "odt") }
        for name in ["txt", ".txt", "a.c", "a.md", "a.empty", "a", "a.", "a.x"] { #expect(try command(name) == nil) }
        #expect(configuration.hasMergeCommands)
        #expect(!UserConfiguration("# merge.txt = x\nother = 1").hasMergeCommands)
    }

    @Test func unknownSettingsAreReported() {
        func complaints(_ text: String) -> [String] { UserConfiguration(text).complaints }
        #expect(complaints("# ignore\n\n ignore = *.part\r\npackage=box\nignore.standard = yes\nmerge.c = x = y\n") == [])
        #expect(
            complaints("\nignroe = *.part\nignore *.part\npackage.standard = maybe\nmerge. = x\nmerge.txt =\nignore=\n= x")
                == [
                    "line 2: there is no setting 'ignroe'; there are ignore, package, no-materialize, noatime-reader, "
                        + "ignore.standard, package.standard, no-materialize.standard, "
                        + "noatime-reader.standard, merge.EXTENSION, app.NAME, quota, keep, keep-versions, previews, "
                        + "previews.limit, trust-suid, visible-conflicts, key-value, key-value.CONTAINER",
                    "line 3: 'ignore *.part' has no value: a line is 'name = value'",
                    "line 4: 'package.standard' is yes or no, not 'maybe'", "line 5: 'merge.' lacks an extension",
                    "line 6: 'merge.txt' has no command", "line 7: 'ignore' has no value",
                    "line 8: there is no setting ''; there are ignore, package, no-materialize, noatime-reader, "
                        + "ignore.standard, package.standard, no-materialize.standard, "
                        + "noatime-reader.standard, merge.EXTENSION, app.NAME, quota, keep, keep-versions, previews, "
                        + "previews.limit, trust-suid, visible-conflicts, key-value, key-value.CONTAINER",
                ])
    }

    @Test func noAccessTimeReadersAreConfigured() {
        let names = UserConfiguration("noatime-reader = mine\nnoatime-reader = !tar").noAccessTimeReaders
        #expect(names.contains("mine") && names.contains("rsync") && !names.contains("tar"))
        #expect(UserConfiguration("noatime-reader = *").noAccessTimeReaders.contains("*"))
        #expect(UserConfiguration("noatime-reader.standard = no").noAccessTimeReaders == [])
    }

    @Test func trustingSetUserIDIsOptIn() {
        #expect(!UserConfiguration("").trustsPrivileges && !UserConfiguration("trust-suid = no").trustsPrivileges)
        #expect(UserConfiguration("trust-suid = yes").trustsPrivileges)
        #expect(UserConfiguration("visible-conflicts = yes").showsConflicts)
        #expect(!UserConfiguration("").showsConflicts && !UserConfiguration("visible-conflicts = no").showsConflicts)
        let wrong = UserConfiguration("trust-suid = maybe")
        #expect(!wrong.trustsPrivileges && wrong.complaints == ["line 1: 'trust-suid' is yes or no, not 'maybe'"])
    }

    @Test func quotaAndRetentionAreParsed() {
        #expect(UserConfiguration("quota = 50G").quotaBytes == 50 << 30 && UserConfiguration("").quotaBytes == nil)
        let kept = UserConfiguration("keep = 0.5\nkeep-versions = 7")
        #expect(kept.keptDays == 0.5 && kept.keptVersions == 7 && kept.complaints.isEmpty)
        for line in ["keep = -1", "keep = inf", "keep-versions = -1", "keep-versions = 1.5"] {
            let wrong = UserConfiguration(line)
            #expect(wrong.keptDays == nil && wrong.keptVersions == nil && wrong.complaints.count == 1, "\(line)")
        }
        let wrong = UserConfiguration("quota = much")
        #expect(wrong.quotaBytes == nil && wrong.complaints == ["line 1: 'quota' is a size above 0, for example 50G"])
    }

    private func isIgnored(_ name: String, _ text: String) throws -> Bool {
        try UserConfiguration(text).ignoring.decision(on: [ItemName(name)], isDirectory: false) == true
    }

    @Test func linesAddToTheIgnoreList() throws {
        let text = "# mine\n\n ignore = *.part \nignore = !*.bak~\r\n"
        #expect(try isIgnored("a.part", text) && isIgnored("a~", text) && !isIgnored("a.bak~", text))
        #expect(try !isIgnored("a.part", "") && isIgnored("a.bak~", ""))
        #expect(try !isIgnored("a~", "ignore.standard = no\nignore = x") && isIgnored("x", "ignore.standard=no\nignore=x"))
    }

    @Test func linesChangeWhoDownloadsNothing() {
        func names(_ text: String) -> [String] { UserConfiguration(text).backgroundReaders }
        #expect(names("").contains("restic") && !names("").contains("mine"))
        let text = "no-materialize = mine\nno-materialize = !restic"
        #expect(names(text).contains("mine") && !names(text).contains("restic") && names(text).contains("updatedb"))
        #expect(names("no-materialize.standard = no\nno-materialize = mine") == ["mine"])
    }

    @Test func linesAddToThePackages() throws {
        let name = try ItemName("a.Box")
        #expect(UserConfiguration("package = box").packages.isPackage(name, []))
        #expect(try UserConfiguration("package = box").packages.isPackage(ItemName("a.rtfd"), []))
        #expect(!UserConfiguration("").packages.isPackage(name, []))
        #expect(try !UserConfiguration("package.standard = no").packages.isPackage(ItemName("a.rtfd"), []))
    }
}

/// The switch of key-values.
@Suite struct KeyValueSettingTests {
    @Test("KV-19: key-values are turned off for one container or for all, apart from documents")
    func keyValuesHaveASwitchOfTheirOwn() throws {
        let notes = try #require(ContainerID("notes")), other = try #require(ContainerID("other"))
        #expect(UserConfiguration("").hasKeyValues(of: notes))
        let one = UserConfiguration("key-value.notes = no")
        #expect(!one.hasKeyValues(of: notes) && one.hasKeyValues(of: other) && one.complaints == [])
        let all = UserConfiguration("key-value = no\nkey-value.other = yes")
        #expect(!all.hasKeyValues(of: notes) && all.hasKeyValues(of: other))
        #expect(UserConfiguration("key-value.notes = perhaps").complaints.count == 1)
    }

    @Test("KV-18: versions are compared number by number")
    func versionsAreComparedByNumbers() {
        #expect(MountKeyValues.isVersion("0.9.0", below: "0.10.0"))
        #expect(!MountKeyValues.isVersion("1.0.0", below: "1.0.0"))
        #expect(!MountKeyValues.isVersion("1.2", below: "1.1.9"))
    }
}
