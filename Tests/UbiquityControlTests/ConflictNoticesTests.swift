import Testing
import UbiquityControl

/// Announcements of conflicts at the next interactive command.
@Suite struct ConflictNoticesTests {
    private func conflict(_ number: Int) -> ConflictNotices.Conflict {
        ConflictNotices.Conflict(
            path: "d/f\(number)", device: "desktop", otherName: "f\(number)", otherDevice: "laptop", version: "v\(number)")
    }

    @Test func lineNamesPathAndBothDevices() {
        var notices = ConflictNotices()
        notices.add(conflict(1))
        notices.add(conflict(1))
        #expect(
            notices.line { "/m/\($0)" } == "1 new conflict: /m/d/f1 (changed on desktop and laptop); "
                + "'ubiquity versions PATH' lists both versions, 'ubiquity resolve PATH' decides")
    }

    @Test func manyConflictsAreOneShortLine() {
        var notices = ConflictNotices()
        for number in 1...50 { notices.add(conflict(number)) }
        #expect(notices.conflicts.count == ConflictNotices.maximumCount && notices.omitted == 30)
        let line = notices.line { $0 }
        #expect(line.hasPrefix("50 new conflicts: d/f1 (") && line.contains("d/f3 (") && !line.contains("d/f4 ("))
        #expect(line.contains("and 47 more;"))
    }

    @Test func decidedConflictIsNotAnnounced() {
        var notices = ConflictNotices()
        notices.add(conflict(1))
        notices.remove(version: "v1")
        #expect(notices.isEmpty)
    }
}
