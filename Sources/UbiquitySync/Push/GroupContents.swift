internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// The rows and small contents of a group in the making, up to the size of one request. Small contents travel inside
/// the commit.
struct GroupContents {
    enum Addition {
        /// The row is part of the group.
        case added
        /// The same bytes were written again, and the change is cleared.
        case unchanged
        /// The file is being written, or cannot be read now.
        case unreadable
        /// The content exceeds the request. The row was not examined.
        case exceedsRequest
    }

    private let contents: PendingContents
    private let limit: Int
    private(set) var rows: [ItemRow] = []
    /// All prepared contents, with those read here.
    private(set) var prepared: [ItemKey: PreparedContent]
    /// The contents read here.
    private(set) var read: [ItemKey: PreparedContent] = [:]
    /// The chunks of the contents read here, in their order.
    private(set) var chunks: [Chunk] = []
    private var bytes = 0
    /// Whether a row was cleared.
    private(set) var hasCleared = false

    init(_ contents: PendingContents, bytesPerRequest: Int) {
        self.contents = contents
        prepared = contents.all
        limit = min(Limits.maximumInlineChunkBytes, bytesPerRequest)
    }

    /// Adds a row with its content, if that is small and not prepared yet.
    mutating func add(_ row: ItemRow) throws -> Addition {
        guard row.wantsInlineContent, prepared[row.key]?.generation != row.generation else {
            rows.append(row)
            return .added
        }
        guard bytes == 0 || bytes + Int(row.size) <= limit else { return .exceedsRequest }
        guard let (content, data) = try contents.readSmall(row) else { return .unreadable }
        if try contents.markUnchanged(row, content.manifest) {
            hasCleared = true
            return .unchanged
        }
        prepared[row.key] = content
        read[row.key] = content
        if let reference = content.manifest.first {
            chunks.append(Chunk(id: reference.id, bytes: data))
            bytes += data.count
        }
        rows.append(row)
        return .added
    }

    /// Adds a row whose content is sent later, if another field of it has changed: another item may wait for the name
    /// that this one freed.
    mutating func addWithoutContent(_ row: ItemRow) {
        if row.hasMoreThanContent { rows.append(row) }
    }
}
