package import UbiquityCore

/// A person at this cloud.
package struct Account: Hashable, Sendable {
    /// The store's key; never reused.
    package let number: Int64
    package let name: String
    package let quotaBytes: Int64
    package let createdAt: Timestamp

    package init(number: Int64, name: String, quotaBytes: Int64, createdAt: Timestamp) {
        self.number = number
        self.name = name
        self.quotaBytes = quotaBytes
        self.createdAt = createdAt
    }

    /// The account of an embedded cloud, which needs no sign-in: whoever reaches its socket is the user.
    package static let localName = "local"
}

/// A device's right to an account. The token itself is not kept, only its SHA-256.
package struct TokenRecord: Hashable, Sendable {
    package var hash: [UInt8]
    package var account: Int64
    /// What the token is for, for people.
    package var label: String
    package var createdAt: Timestamp
}

package struct ContainerRecord: Hashable, Sendable {
    /// The store's key; never reused.
    package let number: Int64
    package let account: Int64
    package let id: ContainerID
    package var revision: Revision
    /// Deletions up to this revision may have been forgotten.
    package var purgedThrough: Revision
    /// Bytes that count against the quota.
    package var usedBytes: Int64
    /// Commits so far, with those that changed nothing.
    package var commits: Int64
}

/// What a commit was answered, for a repeat.
package struct CommitRecord: Hashable, Sendable {
    package var request: RequestID
    /// Counts the container's commits.
    package var number: Int64
    package var revision: Revision
    package var outcomes: [CommitPlan.Outcome]
}

/// Where the bytes of a chunk stand.
package enum ChunkPlace: Hashable, Sendable {
    /// In the metadata store, as a row of small contents.
    case row(Int64)
    /// In a pack of the chunk store.
    case pack(PackID, offset: Int64)
}

/// A file of chunks that arrived together, in the chunk store. The number is random.
package struct PackID: Hashable, Sendable, CustomStringConvertible {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }

    /// 16 hexadecimal digits.
    package var description: String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}

/// A chunk of an account. A row says: these bytes are on the disk, they survive a power loss.
package struct ChunkRecord: Hashable, Sendable {
    package var id: ChunkID
    /// Bytes.
    package var length: Int
    package var place: ChunkPlace
    /// How often the account's versions name it.
    package var references: Int64
    /// When it was stored or last asked for.
    package var askedAt: Timestamp
    /// The stored bytes were found bad: as good as missing, until they come again.
    package var isDamaged = false
}
