package import UbiquityCore
internal import UbiquitySystem

/// Why a transfer of an item waits, and until when.
package struct ItemWait: Sendable, Hashable {
    package enum Reason: Sendable, Hashable {
        /// The mount is offline on request.
        case offlineOnRequest
        case signedOut
        /// The cloud is not reachable, with the last failure; nil while the device connects.
        case network(String?)
        /// The feed is not read to its end.
        case changesOfOthers
        /// A program has the file open for writing.
        case openForWriting(by: [String])
        /// A client has claimed the item for writing.
        case claimed(by: [String])
        /// A program or client writes to the package that holds the item.
        case packageWritten(by: [String])
        /// The package has just changed.
        case packageChanging
        /// The users of the package are asked to save.
        case packageInUse(by: [String])
        /// Two devices changed the package, and a decision is not possible yet.
        case packageUndecided
        /// Other files of the package are not ready.
        case packageIncomplete
        /// A program has paused the sync of the file.
        case pausedByProgram
        /// The item changes again and again.
        case changesOften(count: Int, seconds: Int)
        case accountFull(needs: Int64, left: Int64, quota: Int64)
        /// The cloud or the disk refused the transfer.
        case refused(String)
        /// The last attempt failed with the connection.
        case connectionFailed
        /// The file changed while it was read.
        case changedDuringRead
        /// The name looks like the one of a temporary file.
        case temporaryName
        /// A rename to the old name of the item may follow.
        case renameExpected
        /// The folder of the item waits itself.
        case folder(name: String, because: String)
        case deletionsOnHold(count: Int)
        /// More deletions may follow.
        case deletionBurst
        /// The cloud kept the item after its deletion.
        case deletionWithoutEffect
        /// The content is not at the cloud, or does not fit here.
        case contentUnavailable(String)
        /// Nothing but the transfers before it.
        case turn
    }

    package var reason: Reason
    /// When the next attempt is due, if that is known.
    package var until: Timestamp?

    package init(_ reason: Reason, until: Timestamp? = nil) {
        self.reason = reason
        self.until = until
    }

    /// The reason as a word, for programs.
    package var code: String {
        switch reason {
        case .offlineOnRequest: "offline"
        case .signedOut: "signed-out"
        case .network, .connectionFailed: "network"
        case .changesOfOthers: "changes-of-others"
        case .openForWriting: "open-for-writing"
        case .claimed: "claimed"
        case .packageWritten: "package-written"
        case .packageChanging: "package-changing"
        case .packageInUse: "package-in-use"
        case .packageUndecided: "package-undecided"
        case .packageIncomplete: "package-incomplete"
        case .pausedByProgram: "paused-by-program"
        case .changesOften: "throttled"
        case .accountFull: "account-full"
        case .refused: "refused"
        case .changedDuringRead: "changed-during-read"
        case .temporaryName: "temporary-name"
        case .renameExpected: "rename-expected"
        case .folder: "folder"
        case .deletionsOnHold: "deletions-on-hold"
        case .deletionBurst: "deletion-burst"
        case .deletionWithoutEffect: "deletion-without-effect"
        case .contentUnavailable: "content-unavailable"
        case .turn: "turn"
        }
    }

    /// The reason as a sentence for people, with the time of the next attempt.
    package var sentence: String {
        guard let until else { return text }
        return "\(text), next attempt at \(LocalTime.clock(until))"
    }

    private var text: String {
        switch reason {
        case .offlineOnRequest: "this mount is offline on request ('ubiquity online' ends that)"
        case .signedOut: "this device is signed out ('ubiquity login' signs in)"
        case .network(let failure): "waits for the network" + (failure.map { ": \($0)" } ?? "")
        case .changesOfOthers: "waits until the changes of other devices are read"
        case .openForWriting(let writers): "open for writing in \(Self.list(writers))"
        case .claimed(let writers): "being written by \(Self.list(writers))"
        case .packageWritten(let writers): "in a package that is being written by \(Self.list(writers))"
        case .packageChanging: "in a package that has just changed"
        case .packageInUse(let users): "in a package that \(Self.list(users)) has open; waits until it is saved"
        case .packageUndecided: "in a package that two devices changed; waits until one state can be kept"
        case .packageIncomplete: "waits for other files of its package"
        case .pausedByProgram: "a program has paused its sync, and resumes it"
        case .changesOften(let count, let seconds): "changed \(count) times in \(seconds) s"
        case .accountFull(let needs, let left, let quota):
            "the account is full: needs \(ByteSize.text(needs)), \(ByteSize.text(left)) left of \(ByteSize.text(quota))"
        case .refused(let reason): "the cloud refused it: \(reason)"
        case .connectionFailed: "the connection failed during the upload"
        case .changedDuringRead: "changed while it was read"
        case .temporaryName: "has the name of a temporary file; waits for its final name"
        case .renameExpected: "waits for a rename that may follow"
        case .folder(let name, let reason): "waits for the folder that holds it, \"\(name)\": \(reason)"
        case .deletionsOnHold(let count):
            "deletions are on hold: \(count) items ('ubiquity deletions confirm' uploads them, '… undo' restores)"
        case .deletionBurst: "waits until the deletions of the moment are complete"
        case .deletionWithoutEffect: "the cloud kept the item after its deletion"
        case .contentUnavailable(let reason): reason
        case .turn: "waits for its turn"
        }
    }

    private static func list(_ names: [String]) -> String {
        names.isEmpty ? "a program" : names.joined(separator: ", ")
    }
}
