import Foundation
import Testing
@testable import UbiquityDaemon
import UbiquityCore

/// `mount`, `login` and `logout` name the account, and count the documents that are not shown.
@Suite struct AccountNoticeTests {
    private let local = AccountNotice.Kept(account: "local", isEmbedded: true, files: 3)

    @Test func accountAloneIsNamedWithItsCloud() {
        let notice = AccountNotice(account: "ann", url: "http://a:1", kept: [])
        #expect(notice.text == "account ann at http://a:1")
        #expect(AccountNotice(account: "local", url: nil, kept: []).text == "account local at the cloud on this machine")
    }

    @Test func localLoginShowsTheLocalCloudsDocumentsAgain() {
        let text = AccountNotice(account: "ann", url: "http://a:1", kept: [local]).text
        #expect(
            text == "account ann at http://a:1; 3 documents of account local at the cloud on this machine stay on this "
                + "device and are not shown: to see them, run 'ubiquity login local'")
    }

    @Test func loginShowsAnotherCloudsDocumentsAgain() {
        let other = AccountNotice.Kept(account: "bob", url: "http://b:2", files: 1)
        let text = AccountNotice(account: "local", url: nil, kept: [other]).text
        #expect(text.contains("; 1 document of account bob at http://b:2 stays on this device and is not shown: "))
        #expect(text.contains("run 'ubiquity login http://b:2 --account bob'"))
    }

    @Test func manyAccountsAreOneLine() {
        let others = (1...5).map { AccountNotice.Kept(account: "u\($0)", url: "http://b", files: 2) }
        let text = AccountNotice(account: "ann", url: "http://a", kept: [local] + others).text
        #expect(text.contains("3 documents of account local") && text.contains("of account u2 at http://b"))
        #expect(!text.contains("u3") && text.contains("3 more accounts"))
        #expect(!text.contains("\n"))
    }

    @Test func damagedIndexIsNotAFailure() throws {
        try withTemporaryFolder { (device: String) throws in
            try FileManager.default.createDirectory(atPath: device + "/local/default", withIntermediateDirectories: true)
            try Data("no database".utf8).write(to: URL(filePath: device + "/local/default/index.db"))
            try FileManager.default.createDirectory(atPath: device + "/ann/empty", withIntermediateDirectories: true)
            let signIn = SignIn(url: "http://a:1", account: "ann", token: "t", certificates: nil)
            try signIn.save(deviceFolder: device)
            let notice = try AccountNotice(deviceFolder: device)
            #expect(notice.kept == [AccountNotice.Kept(account: "local", isEmbedded: true, files: nil)])
            #expect(notice.text.contains("; documents of account local at the cloud on this machine stay on this device"))
        }
    }
}
