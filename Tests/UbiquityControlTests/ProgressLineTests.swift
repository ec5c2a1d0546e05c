import Testing
import UbiquityControl

@Suite struct ProgressLineTests {
    @Test func nothingIsShownBeforeBytesMove() {
        var progress = ProgressLine("downloading")
        #expect(progress.text == nil)
        progress.record(remaining: 0, at: 0)
        #expect(progress.text == nil)
    }

    @Test func barBytesRateAndRemainingTimeAreShown() {
        var progress = ProgressLine("downloading")
        progress.record(remaining: 4096, at: 100)
        #expect(progress.text == nil)
        progress.record(remaining: 1024, at: 103)
        #expect(progress.text == "downloading [###############-----] 75 %  3.0 KiB of 4.0 KiB  1.0 KiB/s  1 s left")
        progress.record(remaining: 0, at: 104)
        #expect(progress.text == "downloading [####################] 100 %  4.0 KiB of 4.0 KiB  1.0 KiB/s")
    }

    @Test func itemsAddedDuringTheTransferRaiseTheTotal() {
        var progress = ProgressLine("waiting")
        progress.record(remaining: 1024, at: 0)
        progress.record(remaining: 512, at: 0.5)
        progress.record(remaining: 3584, at: 0.6)
        #expect(progress.text == "waiting [##------------------] 12 %  512 B of 4.0 KiB")
    }

    @Test func stoppedClockGivesNoRate() {
        var progress = ProgressLine("waiting")
        progress.record(remaining: .max, at: 5)
        progress.record(remaining: -1, at: 5)
        #expect(progress.text?.contains("/s") == false, "\(String(describing: progress.text))")
    }
}

@Suite struct CommandSuggestionTests {
    private let commands = ["mount", "unmount", "status", "evict", "pin", "unpin"]

    @Test(arguments: [("moutn", "mount"), ("stauts", "status"), ("Evict", "evict"), ("unmout", "unmount")])
    func mistypedCommandSuggestsTheNearest(word: String, command: String) {
        #expect(CommandSuggestion.nearest(to: word, among: commands) == command)
    }

    @Test(arguments: ["", "x", "frobnicate", String(repeating: "mount", count: 1000)])
    func wordThatIsFarFromAllSuggestsNothing(word: String) {
        #expect(CommandSuggestion.nearest(to: word, among: commands) == nil)
    }
}
