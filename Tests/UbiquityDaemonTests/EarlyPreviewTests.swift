import Testing
import UbiquityCore
@testable import UbiquityDaemon

/// The configuration of previews, and the announcements of moves.
@Suite struct EarlyPreviewTests {
    @Test("PV-02: the folder and the size of previews are configurable")
    func rules() throws {
        let standard = UserConfiguration("").earlyPreviews, previews = try ItemName("Previews")
        #expect(standard.folder == previews && standard.limit == 65_536)
        let other = UserConfiguration("previews = Data\npreviews.limit = 1M").earlyPreviews, data = try ItemName("Data")
        #expect(other.folder == data && other.limit == 1 << 20)
        #expect(UserConfiguration("previews = none").earlyPreviews.folder == nil)
        let wrong = UserConfiguration("previews = a/b\npreviews.limit = much")
        #expect(wrong.complaints.count == 2 && wrong.earlyPreviews == standard)
    }

    @Test("a client announces a limited number of moves, and its end forgets them")
    func moves() throws {
        let moves = AnnouncedMoves(), item = AnnouncedMoves.Item(key: ItemKey(5), entry: nil)
        try moves.begin("a", item, of: 1)
        try moves.begin("a", item, of: 1)
        #expect(moves.end("a", of: 2) == nil && moves.end("a", of: 1) == item && moves.end("a", of: 1) == nil)
        for number in 0..<AnnouncedMoves.maximumPerClient { try moves.begin("\(number)", item, of: 1) }
        #expect(throws: UbiquityError.self) { try moves.begin("more", item, of: 1) }
        try moves.begin("0", item, of: 1)
        moves.removeAll(of: 1)
        #expect(moves.end("0", of: 1) == nil)
    }
}
