// The space that an account takes on the cloud's disk, in plain JSON.

/// Bytes on the disk. A content that several versions have counts once: in the first of these sums that has it.
package struct UsageSums: Codable, Hashable, Sendable {
    /// Contents of the present documents, undecided conflict versions included.
    package var live: Int64 = 0
    /// Earlier versions and resolved conflicts.
    package var earlierVersions: Int64 = 0
    /// Deleted items with all their versions.
    package var trash: Int64 = 0

    package init() {}

    package var total: Int64 { live + earlierVersions + trash }
}

/// A document: an item in the folder `Documents` of a container, with all that is in it.
package struct DocumentUsage: Codable, Hashable, Sendable {
    package var name: String
    package var bytes: UsageSums

    package init(name: String, bytes: UsageSums) {
        self.name = name
        self.bytes = bytes
    }
}

/// One container. Its bytes are those of its documents and of all others.
package struct ContainerUsage: Codable, Hashable, Sendable {
    package var name: String
    /// The name for people; nil if none is set.
    package var displayName: String?
    package var bytes: UsageSums
    /// The largest documents. Nil if the token of the request does not open the container.
    package var documents: [DocumentUsage]?
    /// The documents that are not listed, and all that is not in `Documents`.
    package var others: UsageSums

    package init(
        name: String, displayName: String? = nil, bytes: UsageSums, documents: [DocumentUsage]?, others: UsageSums
    ) {
        self.name = name
        self.displayName = displayName
        self.bytes = bytes
        self.documents = documents
        self.others = others
    }
}

/// An account. Its sums add up to what it takes on the cloud's disk.
package struct AccountUsage: Codable, Hashable, Sendable {
    package var account: String
    package var quota: Int64
    /// Bytes that count towards the quota: the sizes of the present documents.
    package var counted: Int64
    package var bytes: UsageSums
    /// Contents that no version has: uploads under way, and contents that wait for their collection.
    package var unused: Int64
    /// Its share of the database: names, attributes, versions and answers, without contents.
    package var database: Int64
    package var containers: [ContainerUsage]

    package var total: Int64 { bytes.total + unused + database }

    package init(
        account: String, quota: Int64, counted: Int64, bytes: UsageSums, unused: Int64, database: Int64,
        containers: [ContainerUsage]
    ) {
        self.account = account
        self.quota = quota
        self.counted = counted
        self.bytes = bytes
        self.unused = unused
        self.database = database
        self.containers = containers
    }
}

/// The effect of deleting all items of a container.
package struct DeletedContainer: Codable, Hashable, Sendable {
    package var items: Int
    /// Items that stay: a device changed them meanwhile, or announced a content that it has not uploaded yet.
    package var kept: Int
    /// For so long the items can be restored.
    package var restorableSeconds: Double

    package init(items: Int, kept: Int, restorableSeconds: Double) {
        self.items = items
        self.kept = kept
        self.restorableSeconds = restorableSeconds
    }
}

/// The effect of restoring a deleted container.
package struct RestoredContainer: Codable, Hashable, Sendable {
    package var items: Int
    package init(items: Int) { self.items = items }
}
