import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// The account a device is signed in to: `<state>/account.json`. Without one, the embedded cloud is used.
package struct SignIn: Codable, Hashable, Sendable {
    package var url: String
    package var account: String
    package var token: String
    /// The only authorities to trust (PEM), for a cloud with a self-made certificate; nil trusts the system's.
    package var certificates: String?
    /// The id of the cloud at the address when the device signed in (see `AccountFolder`); nil if that was not asked.
    package var cloud: String?
    /// Whether the user has signed out of this account. Then there is no token, and mounts show no documents.
    package var isSignedOut: Bool?

    /// Longest certificate file in bytes. All of Debian's take a quarter of a million.
    package static let maximumCertificates = 512 * 1024

    package init(url: String, account: String, token: String, certificates: String?, cloud: String? = nil) {
        self.url = url
        self.account = account
        self.token = token
        self.certificates = certificates
        self.cloud = cloud
    }

    private static func path(_ deviceFolder: String) -> String { Path.join(deviceFolder, DeviceFiles.accountName) }

    /// The sign-in of the device; nil if it uses the embedded cloud.
    /// - Throws: `.signedOut` if the user has signed out.
    package static func load(deviceFolder: String) throws(UbiquityError) -> SignIn? {
        guard let stored = try stored(deviceFolder: deviceFolder) else { return nil }
        guard stored.isSignedOut != true else {
            throw UbiquityError(
                .signedOut, "this device is signed out", at: deviceFolder,
                remedy: "sign in: ubiquity login \(stored.url) --account \(stored.account)")
        }
        return stored
    }

    /// The same, and also a sign-in that the user has ended.
    static func stored(deviceFolder: String) throws(UbiquityError) -> SignIn? {
        try StoredJSON.read(SignIn.self, at: path(deviceFolder))
    }

    /// Replaces the device's sign-in in one step.
    package func save(deviceFolder: String) throws(UbiquityError) {
        try describing("create the state folder", at: deviceFolder) { () throws(Errno) in
            try FileSystem.makeDirectories(deviceFolder)
        }
        try AccountFolder.claim(device: deviceFolder)
        // An older cloud may have taken the place of one that sent digests.
        try DigestMemory(AccountFolder(device: deviceFolder, signIn: self), url: url).forget()
        try StoredJSON.write(self, at: Self.path(deviceFolder))
    }

    /// Signs out. The account's files on the device stay in their folder; the token is erased.
    /// - Returns: the account; nil if the device was not signed in.
    package static func end(deviceFolder: String) throws(UbiquityError) -> SignIn? {
        guard var signIn = try stored(deviceFolder: deviceFolder), signIn.isSignedOut != true else { return nil }
        try AccountFolder.claim(device: deviceFolder)
        signIn.isSignedOut = true
        signIn.token = ""
        try StoredJSON.write(signIn, at: path(deviceFolder))
        return signIn
    }

    /// Signs in to the embedded cloud, which needs no sign-in. The other account's files stay in their folder.
    /// - Returns: false if the device uses it already.
    package static func remove(deviceFolder: String) throws(UbiquityError) -> Bool {
        let path = path(deviceFolder)
        try AccountFolder.claim(device: deviceFolder)
        return try describing("remove the sign-in", at: path) { () throws(Errno) in
            do throws(Errno) { try FileSystem.unlink(path) } catch .ENOENT { return false }
            try FileSystem.syncDirectory(deviceFolder)
            return true
        }
    }
}
