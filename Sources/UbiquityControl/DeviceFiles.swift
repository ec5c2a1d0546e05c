import UbiquityCore

/// The files at the top of a device's state folder that tell which account its mounts show.
///
/// A program computes its identity token from them. It needs no daemon, no network and no mount for that.
package struct DeviceFiles: Hashable, Sendable {
    /// The content of `account.json`, as far as a token depends on it.
    package struct Account: Codable, Hashable, Sendable {
        package var url: String
        package var account: String
        package var token: String
        package var cloud: String?
        /// Whether the user has signed out of this account. Its documents that wait for their upload stay.
        package var isSignedOut: Bool?

        package init(url: String, account: String, token: String, cloud: String? = nil, isSignedOut: Bool? = nil) {
            self.url = url
            self.account = account
            self.token = token
            self.cloud = cloud
            self.isSignedOut = isSignedOut
        }
    }

    /// The content of `device.json`, as far as a token depends on it.
    package struct Device: Codable, Hashable, Sendable {
        /// 16 bytes in hexadecimal digits. Absent in states that an older program made.
        package var secret: String?
    }

    /// The sign-in; absent if the device uses the embedded cloud.
    package static let accountName = "account.json"
    /// The device's id, name and secret.
    package static let deviceName = "device.json"
    /// Exists while documents are off.
    package static let offName = "documents-off"
    /// Names the sign-in that the cloud refuses.
    package static let refusedName = "refused"
    /// In bytes. The largest file, the sign-in, contains certificates.
    package static let maximumLength = 1 << 20

    package var account: Account?
    package var secret: [UInt8]
    package var isOff: Bool
    /// The content of `refused`.
    package var refused: [UInt8]?

    /// - Parameter files: the content of each file by its name; none if a file does not exist.
    /// - Throws: `.invalid` if a file is malformed. `.notFound` without a secret.
    package init(_ files: (String) throws -> [UInt8]?) throws {
        let device = try files(Self.deviceName).map { try ControlCodec.decode(Device.self, from: $0) }
        guard let secret = device?.secret.flatMap(Hex.decode), secret.count == KeyedHash.length else {
            throw UbiquityError(.notFound, "the device has no secret yet", remedy: "mount it once")
        }
        self.secret = secret
        account = try files(Self.accountName).map { try ControlCodec.decode(Account.self, from: $0) }
        isOff = try files(Self.offName) != nil
        refused = try files(Self.refusedName)
    }

    /// The token of the account for a program; nil while nobody is signed in, documents are off, or the cloud refuses
    /// the sign-in.
    ///
    /// The token is a keyed hash. It reveals neither the account nor the program, and it differs on every device.
    /// - Parameters:
    ///   - application: identifies the program.
    ///   - container: the container's name.
    package func token(application: String, container: String) -> String? {
        guard !isOff, account?.isSignedOut != true, refused == nil || refused != refusal else { return nil }
        return hash(["identity", application, account?.cloud ?? account?.url ?? "", account?.account ?? "", container])
    }

    /// The content of `refused` while the cloud refuses this sign-in; nil without a sign-in.
    package var refusal: [UInt8]? {
        guard let account else { return nil }
        return hash(["refused", account.url, account.account, account.token]).map { Array($0.utf8) }
    }

    private func hash(_ words: [String]) -> String? {
        KeyedHash(key: secret).map { Hex.encode($0.hash(Array(words.joined(separator: "\0").utf8))) }
    }
}
