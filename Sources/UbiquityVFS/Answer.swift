/// What an operation gives: the result at once, or work that must wait (for a download) and gives it later.
///
/// The threads that take the kernel's requests never wait: what is `now` they answer themselves, what is `later` they
/// hand to a task. A `later` that is cancelled stops waiting and throws.
package enum Answer<Value: Sendable>: Sendable {
    case now(Value)
    case later(@Sendable () async throws -> Value)

    /// The result, waited for.
    package var value: Value {
        get async throws {
            switch self {
            case .now(let value): value
            case .later(let work): try await work()
            }
        }
    }

    /// The same answer with its result put into another form.
    package func map<Other>(_ transform: @escaping @Sendable (Value) throws -> Other) throws -> Answer<Other> {
        switch self {
        case .now(let value): .now(try transform(value))
        case .later(let work): .later { try transform(try await work()) }
        }
    }
}
