/// The result of an operation: a value at once, or work that must wait (for a download) and returns the value later.
///
/// The threads that take the kernel's requests never wait: they answer `now` themselves and pass `later` to a task. A
/// cancelled `later` stops waiting and throws.
package enum Answer<Value: Sendable>: Sendable {
    case now(Value)
    case later(@Sendable () async throws -> Value)

    /// Waits for the result.
    package var value: Value {
        get async throws {
            switch self {
            case .now(let value): value
            case .later(let work): try await work()
            }
        }
    }

    /// The same answer with a transformed result.
    package func map<Other>(_ transform: @escaping @Sendable (Value) throws -> Other) throws -> Answer<Other> {
        switch self {
        case .now(let value): .now(try transform(value))
        case .later(let work): .later { try transform(try await work()) }
        }
    }
}
