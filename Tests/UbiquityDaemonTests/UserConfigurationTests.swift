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
            merge.empty =
            other = merge.x
            """)
        func command(_ name: String) throws -> String? { configuration.mergeCommand(for: try ItemName(name)) }
        #expect(try command("report.txt") == "git merge-file = \"$2\"")
        #expect(try command("a.b.txt") != nil)
        for name in ["txt", ".txt", "a.c", "a.md", "a.empty", "a", "a.", "a.x"] { #expect(try command(name) == nil) }
        #expect(configuration.hasMergeCommands)
        #expect(!UserConfiguration("# merge.txt = x\nother = 1").hasMergeCommands)
    }
}
