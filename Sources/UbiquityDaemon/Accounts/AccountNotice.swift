import UbiquityCore
import UbiquityIndex
import UbiquitySystem

/// A notice for the user: which account and cloud a device uses, and which documents of its other accounts are hidden.
///
/// A device keeps the documents of each account in a folder of its own. After `login` a mount shows only those of the
/// new account.
package struct AccountNotice: Hashable, Sendable {
    /// An account that the device holds and does not use now.
    struct Kept: Hashable, Sendable {
        var account: String
        /// The cloud's address; nil if it is not stored.
        var url: String?
        /// Whether it is the account of the embedded cloud, which needs no sign-in.
        var isEmbedded = false
        /// Nil if its index cannot be read.
        var files: Int64?
    }

    var account: String
    /// The cloud's address; nil for the embedded cloud.
    var url: String?
    var kept: [Kept]
    /// Why mounts of the device show an empty folder; nil if they show the account.
    var absence: String?

    /// Number of other accounts that are named; the others are counted.
    private static let longestList = 3

    /// For the present sign-in of the device.
    package init(deviceFolder: String) throws(UbiquityError) {
        let shown = try DeviceAccount.load(deviceFolder: deviceFolder)
        absence = try shown.absence(deviceFolder: deviceFolder)
        let signIn = shown.signIn
        let used = try AccountFolder(device: deviceFolder, signIn: signIn)
        account = shown.name
        url = signIn?.url
        kept = []
        guard absence == nil else { return }
        for other in try AccountFolder.all(ofDevice: deviceFolder) where other.folder != used.path {
            let files = try Self.files(in: other.folder)
            guard files != 0 else { continue }
            let isEmbedded = other.url == nil && other.account == DeviceFolder.localAccount
            kept.append(Kept(account: other.account, url: other.url, isEmbedded: isEmbedded, files: files))
        }
    }

    init(account: String, url: String?, kept: [Kept]) {
        self.account = account
        self.url = url
        self.kept = kept
    }

    /// Files of all containers of an account; nil if an index cannot be read.
    private static func files(in folder: String) throws(UbiquityError) -> Int64? {
        var sum: Int64 = 0
        for container in try AccountFolder.folders(in: folder) {
            let index = Path.join(Path.join(folder, container), "index.db")
            guard FileSystem.isFile(index) else { continue }
            // A damaged index must not fail the command; the doctor handles it.
            guard let count = try? ItemIndex.fileCount(ofIndexAt: index) else { return nil }
            sum += count
        }
        return sum
    }

    /// One line: the account and the cloud, then the documents of other accounts.
    package var text: String {
        if let absence { return absence }
        let used = "account \(account) at \(url ?? Self.embedded)"
        guard !kept.isEmpty else { return used }
        var parts = kept.prefix(Self.longestList).map(Self.text)
        if kept.count > parts.count { parts.append("\(kept.count - parts.count) more accounts") }
        let isOne = parts.count == 1 && kept[0].files == 1
        let verbs = isOne ? "stays on this device and is" : "stay on this device and are"
        return "\(used); \(parts.joined(separator: ", ")) \(verbs) not shown: \(hint)"
    }

    private static let embedded = "the cloud on this machine"

    private static func text(of kept: Kept) -> String {
        let files = kept.files.map { $0 == 1 ? "1 document" : "\($0) documents" } ?? "documents"
        let cloud = kept.isEmbedded ? " at \(embedded)" : kept.url.map { " at \($0)" } ?? ""
        return "\(files) of account \(kept.account)\(cloud)"
    }

    private var hint: String {
        guard let first = kept.first, kept.count == 1 else {
            return "to see them, sign in to their account with 'ubiquity login'"
        }
        if first.isEmbedded { return "to see them, run 'ubiquity login local'" }
        return "to see them, run 'ubiquity login \(first.url ?? "URL") --account \(first.account)'"
    }
}
