import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySystem

/// The folder in which a device keeps its state of one account: `<state>/<account>/`. Accounts of different clouds may
/// have the same name. The first one has that folder, the others `<account>+2` and so on. Without that, signing in at
/// another cloud would upload all documents of the first account to it.
struct AccountFolder: Hashable, Sendable {
    /// Accounts of one name that a device can hold.
    private static let limit = 100

    let path: String
    /// 1 for the first account of the name, 2 for the next.
    let number: Int
    /// The mark stored in the folder, and the one that should be.
    private let known: Mark?
    private let mark: Mark?

    /// The mark that names the folder's cloud: `<state>/<account>/cloud.json`. The embedded cloud's folder has none.
    private struct Mark: Codable, Hashable {
        var url: String
        var cloud: String?

    }

    /// The folder for the empty containers that mounts show while nobody is signed in, or documents are off. No
    /// account's folder has this name, because "+" is encoded.
    init(vacantOfDevice device: String, isOff: Bool) {
        (path, number, known, mark) = (Path.join(device, isOff ? "+off" : "+signed-out"), 1, nil, nil)
    }

    /// The folder of the account that the device is signed in to; it may not exist yet.
    init(device: String, signIn: SignIn?) throws(UbiquityError) {
        let name = ContainerFolder.fileName(account: signIn?.account ?? DeviceFolder.localAccount)
        let first = Path.join(device, name)
        guard let signIn else {
            (path, number, known, mark) = (first, 1, nil, nil)
            return
        }
        let mark = Mark(url: Self.plain(signIn.url), cloud: signIn.cloud)
        let folders = try Self.folders(first, isTaken: name == DeviceFolder.localAccount)
        // A cloud that moved keeps its id at another address. A cloud that was set up anew has the old address, and the
        // device uploads its documents again.
        guard
            let found = folders.firstIndex(where: { $0.mark?.cloud != nil && $0.mark?.cloud == mark.cloud })
                ?? folders.firstIndex(where: { $0.mark?.url == mark.url })
                // A folder without a mark is older than marks, or does not exist yet.
                ?? folders.firstIndex(where: { $0.mark == nil })
        else {
            throw UbiquityError(
                .tooLarge, "this device holds accounts named \"\(signIn.account)\" of \(Self.limit) clouds", at: device,
                remedy: "remove one that is no longer wanted, or use another --state")
        }
        (path, number) = (folders[found].path, folders[found].number)
        (known, self.mark) = (folders[found].mark, mark)
    }

    /// The existing folders of one name, and the first free one.
    /// - Parameter isTaken: whether the first one without a mark belongs to the embedded cloud.
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

    /// An account's folder, with the cloud's address if it is stored.
    typealias Listed = (folder: String, account: String, url: String?)

    /// All account folders of a device that have a container.
    static func all(ofDevice device: String) throws(UbiquityError) -> [Listed] {
        var found = [Listed]()
        for name in try folders(in: device) where !name.hasPrefix("+") {
            let path = Path.join(device, name)
            guard try folders(in: path).contains(where: { FileSystem.isFile(Path.join(path, $0) + "/index.db") }) else {
                continue
            }
            // "+" itself is encoded in account names.
            let plain = name.prefix { $0 != "+" }
            let url = try StoredJSON.read(Mark.self, at: markPath(path))?.url
            found.append((path, PercentEncoding.decode(plain) ?? String(plain), url))
        }
        return found.sorted { $0.folder < $1.folder }
    }

    /// The names of the folders in a folder; none if it does not exist.
    static func folders(in folder: String) throws(UbiquityError) -> [String] {
        let entries = try describing("list the accounts", at: folder) { () throws(Errno) -> [DirectoryEntry] in
            do throws(Errno) { return try FileSystem.entries(of: folder) } catch .ENOENT { return [] }
        }
        return entries.map(\.text).filter { (try? FileSystem.status(Path.join(folder, $0)))?.isDirectory == true }
    }

    /// Marks the folder of the present sign-in before another sign-in replaces it.
    static func claim(device: String) throws(UbiquityError) {
        guard let signIn = try SignIn.stored(deviceFolder: device) else { return }
        let folder = try AccountFolder(device: device, signIn: signIn)
        let exists = try describing("find the account", at: folder.path) { () throws(Errno) in
            try FileSystem.exists(folder.path)
        }
        if exists { try folder.claim() }
    }

    /// Stores the mark. Call it before any file of the account is put into the folder.
    func claim() throws(UbiquityError) {
        guard let mark else { return }
        // The cloud's id may be missing this time.
        let next = Mark(url: mark.url, cloud: mark.cloud ?? known?.cloud)
        guard next != known else { return }
        try describing("create the state folder", at: path) { () throws(Errno) in try FileSystem.makeDirectories(path) }
        try StoredJSON.write(next, at: Self.markPath(path))
    }

    /// Documents of the account that wait to be uploaded, in all its containers. Changes that are only in an index's
    /// journal are not counted. An index that cannot be read counts none; the doctor handles it.
    func waitingDocuments() throws(UbiquityError) -> Int64 {
        var sum: Int64 = 0
        for container in try Self.folders(in: path) {
            let index = Path.join(Path.join(path, container), "index.db")
            if FileSystem.isFile(index) { sum += (try? ItemIndex.unsentCount(ofIndexAt: index)) ?? 0 }
        }
        return sum
    }

    private static func markPath(_ folder: String) -> String { Path.join(folder, "cloud.json") }

    /// The address without slashes at its end.
    private static func plain(_ url: String) -> String {
        var url = url
        while url.hasSuffix("/") { url.removeLast() }
        return url
    }
}
