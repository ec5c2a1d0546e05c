import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Where a device keeps what it holds of one account: `<state>/<account>/`. Accounts of different clouds may have the
/// same name; the first one has that folder, the others `<account>+2` and so on. Without that, signing in at another
/// cloud would send it all documents of the first.
struct AccountFolder: Hashable, Sendable {
    /// Accounts of one name that a device can hold.
    private static let limit = 100

    let path: String
    /// 1 for the first account of the name, 2 for the next.
    let number: Int
    /// What is noted there, and what should be.
    private let known: Mark?
    private let mark: Mark?

    /// Whose folder it is: `<state>/<account>/cloud.json`. The embedded cloud has none.
    private struct Mark: Codable, Hashable {
        var url: String
        var cloud: String?

    }

    /// The folder of the account that the device is signed in to; it need not be there yet.
    init(device: String, signIn: SignIn?) throws(UbiquityError) {
        let name = ContainerFolder.fileName(account: signIn?.account ?? DeviceFolder.localAccount)
        let first = Path.join(device, name)
        guard let signIn else {
            (path, number, known, mark) = (first, 1, nil, nil)
            return
        }
        let mark = Mark(url: Self.plain(signIn.url), cloud: signIn.cloud)
        let folders = try Self.folders(first, isTaken: name == DeviceFolder.localAccount)
        // A cloud that moved is the same at another address. One that was set up anew has the old one's address, and is
        // told again what is here.
        guard
            let found = folders.firstIndex(where: { $0.mark?.cloud != nil && $0.mark?.cloud == mark.cloud })
                ?? folders.firstIndex(where: { $0.mark?.url == mark.url })
                // One without a mark is of a time when there were none, or not there yet.
                ?? folders.firstIndex(where: { $0.mark == nil })
        else {
            throw UbiquityError(
                .tooLarge, "this device holds accounts named \"\(signIn.account)\" of \(Self.limit) clouds", at: device,
                remedy: "remove one that is no longer wanted, or use another --state")
        }
        (path, number) = (folders[found].path, folders[found].number)
        (known, self.mark) = (folders[found].mark, mark)
    }

    /// Those of one name that are there, and the first that is free.
    /// - Parameter isTaken: The first one without a mark is the embedded cloud's.
    private static func folders(
        _ first: String, isTaken: Bool
    ) throws(UbiquityError) -> [(path: String, number: Int, mark: Mark?)] {
        var folders = [(path: String, number: Int, mark: Mark?)](), hasFree = false
        for number in 1...limit {
            let path = number == 1 ? first : "\(first)+\(number)"
            let mark = try StoredJSON.read(Mark.self, at: markPath(path))
            guard mark != nil || !hasFree && !(isTaken && number == 1) else { continue }
            folders.append((path, number, mark))
            hasFree = hasFree || mark == nil
        }
        return folders
    }

    /// An account's folder with the cloud's address as far as that is noted.
    typealias Listed = (folder: String, account: String, url: String?)

    /// All of a device that have a container.
    static func all(ofDevice device: String) throws(UbiquityError) -> [Listed] {
        var found = [Listed]()
        for name in try folders(in: device) {
            let path = Path.join(device, name)
            guard try folders(in: path).contains(where: { FileSystem.isFile(Path.join(path, $0) + "/index.db") }) else {
                continue
            }
            // "+" itself is encoded in names of accounts.
            let plain = name.prefix { $0 != "+" }
            let url = try StoredJSON.read(Mark.self, at: markPath(path))?.url
            found.append((path, PercentEncoding.decode(plain) ?? String(plain), url))
        }
        return found.sorted { $0.folder < $1.folder }
    }

    /// The names of the folders in a folder; none if it does not exist.
    static func folders(in folder: String) throws(UbiquityError) -> [String] {
        let entries = try describing("look for accounts", at: folder) { () throws(Errno) -> [DirectoryEntry] in
            do throws(Errno) { return try FileSystem.entries(of: folder) } catch .ENOENT { return [] }
        }
        return entries.map(\.text).filter { (try? FileSystem.status(Path.join(folder, $0)))?.isDirectory == true }
    }

    /// Notes whose folder that of the present sign-in is, before another one takes its place.
    static func claim(device: String) throws(UbiquityError) {
        guard let signIn = try SignIn.load(deviceFolder: device) else { return }
        let folder = try AccountFolder(device: device, signIn: signIn)
        let exists = try describing("look for the account", at: folder.path) { () throws(Errno) in
            try FileSystem.exists(folder.path)
        }
        if exists { try folder.claim() }
    }

    /// Notes whose folder it is. To be called before anything of the account is put there.
    func claim() throws(UbiquityError) {
        guard let mark else { return }
        // Which cloud it is may not have been asked this time.
        let next = Mark(url: mark.url, cloud: mark.cloud ?? known?.cloud)
        guard next != known else { return }
        try describing("make the state folder", at: path) { () throws(Errno) in try FileSystem.makeDirectories(path) }
        try StoredJSON.write(next, at: Self.markPath(path))
    }

    private static func markPath(_ folder: String) -> String { Path.join(folder, "cloud.json") }

    /// The same for addresses that differ in a slash at the end only.
    private static func plain(_ url: String) -> String {
        var url = url
        while url.hasSuffix("/") { url.removeLast() }
        return url
    }
}
