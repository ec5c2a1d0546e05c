import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// The account whose documents a device's mounts show.
///
/// It is read from two files of the state folder: `account.json` (the sign-in) and `documents-off`. Each change of one
/// of them is one step, so a process that dies in between leaves either the old account or the new one.
package enum DeviceAccount: Hashable, Sendable {
    /// The account of the embedded cloud, which needs no sign-in.
    case embedded
    case signedIn(SignIn)
    /// The user has signed out of this account; mounts show an empty folder.
    case signedOut(SignIn)
    /// Between two accounts, while a mount closes one and opens the other.
    case changing
    /// The user has turned documents off; mounts show an empty folder. The sign-in is nil for the embedded cloud.
    case off(SignIn?)

    package static func load(deviceFolder: String) throws(UbiquityError) -> DeviceAccount {
        let signIn = try SignIn.stored(deviceFolder: deviceFolder)
        if let signIn, signIn.isSignedOut == true { return .signedOut(signIn) }
        guard try !areDocumentsOff(deviceFolder) else { return .off(signIn) }
        return signIn.map(DeviceAccount.signedIn) ?? .embedded
    }

    /// The sign-in that mounts use at the cloud; nil for the embedded cloud, and while mounts show nothing.
    var signIn: SignIn? {
        if case .signedIn(let signIn) = self { return signIn }
        return nil
    }

    /// Whether mounts show an empty folder.
    package var isVacant: Bool { vacancy != nil }

    /// Why mounts show an empty folder, in two words; nil if they show an account.
    var vacancy: String? {
        switch self {
        case .embedded, .signedIn: nil
        case .signedOut, .changing: "signed out"
        case .off: Self.offText
        }
    }

    private static let offText = "documents off"

    /// The account's name, also if its documents are not shown.
    var name: String {
        switch self {
        case .embedded, .off(nil): DeviceFolder.localAccount
        case .changing: ""
        case .signedIn(let signIn), .signedOut(let signIn), .off(let signIn?): signIn.account
        }
    }

    /// The folder with the state that mounts show.
    func folder(ofDevice device: String) throws(UbiquityError) -> AccountFolder {
        guard let vacancy else { return try AccountFolder(device: device, signIn: signIn) }
        return AccountFolder(vacantOfDevice: device, isOff: vacancy == Self.offText)
    }

    // MARK: The switch

    /// Turns the documents of the device on or off. This needs no sign-out.
    /// - Returns: false if nothing changed.
    package static func setDocuments(on: Bool, deviceFolder: String) throws(UbiquityError) -> Bool {
        guard try areDocumentsOff(deviceFolder) == on else { return false }
        let path = offPath(deviceFolder)
        if on {
            try describing("turn documents on", at: path) { () throws(Errno) in
                try FileSystem.unlink(path)
                try FileSystem.syncDirectory(deviceFolder)
            }
        } else {
            try describing("create the state folder", at: deviceFolder) { () throws(Errno) in
                try FileSystem.makeDirectories(deviceFolder)
            }
            try SmallFile.publish([], at: path)
        }
        return true
    }

    private static func areDocumentsOff(_ deviceFolder: String) throws(UbiquityError) -> Bool {
        try describing("read the switch of the documents", at: offPath(deviceFolder)) { () throws(Errno) in
            try FileSystem.exists(offPath(deviceFolder))
        }
    }

    private static func offPath(_ deviceFolder: String) -> String { Path.join(deviceFolder, DeviceFiles.offName) }
}

extension DeviceAccount {
    /// For a device that shows no documents: why, how many documents wait and are safe, and what shows them again. Nil
    /// if it shows an account.
    package func absence(deviceFolder: String) throws(UbiquityError) -> String? {
        let former: SignIn?, state: String, remedy: String
        switch self {
        case .embedded, .signedIn: return nil
        case .changing: return "the account is changing"
        case .signedOut(let signIn):
            (former, state, remedy) = (signIn, "signed out", "sign in as \(signIn.account) to continue")
        case .off(let signIn):
            (former, state, remedy) = (signIn, "documents are off", "run 'ubiquity documents on' to continue")
        }
        let count = try AccountFolder(device: deviceFolder, signIn: former).waitingDocuments()
        let waiting = switch count {
        case 0: ""
        case 1: "1 document waits to be uploaded and is safe; "
        default: "\(count) documents wait to be uploaded and are safe; "
        }
        return "\(state); \(waiting)\(remedy)"
    }
}
