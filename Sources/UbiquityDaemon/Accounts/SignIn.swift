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

    /// Longest certificate file in bytes. All of Debian's take a quarter of a million.
    package static let maximumCertificates = 512 * 1024

    package init(url: String, account: String, token: String, certificates: String?, cloud: String? = nil) {
        self.url = url
        self.account = account
        self.token = token
        self.certificates = certificates
        self.cloud = cloud
    }

    private static func path(_ deviceFolder: String) -> String { Path.join(deviceFolder, "account.json") }

    package static func load(deviceFolder: String) throws(UbiquityError) -> SignIn? {
        try StoredJSON.read(SignIn.self, at: path(deviceFolder))
    }

    package func save(deviceFolder: String) throws(UbiquityError) {
        try describing("create the state folder", at: deviceFolder) { () throws(Errno) in
            try FileSystem.makeDirectories(deviceFolder)
        }
        try AccountFolder.claim(device: deviceFolder)
        // An older cloud may have taken the place of one that sent digests.
        try DigestMemory(AccountFolder(device: deviceFolder, signIn: self), url: url).forget()
        try StoredJSON.write(self, at: Self.path(deviceFolder))
    }

    /// Signs out. The account's files on the device stay in their folder.
    /// - Returns: false if the device was not signed in.
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
