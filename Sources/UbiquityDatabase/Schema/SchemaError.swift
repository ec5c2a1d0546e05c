/// The reason why a database cannot be synced as its schema is.
///
/// - Source: this library.
public struct SchemaError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The table.
    public let table: String
    /// The rule that the table breaks, and the remedy.
    public let reason: String

    public var description: String { "the table \(table) cannot be synced: \(reason)" }
}
