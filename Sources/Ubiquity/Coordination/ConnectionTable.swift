/// Connections by what they lead to, each with a number: one that ends late takes only itself away, and not the one
/// that was opened after it.
struct ConnectionTable<Connection> {
    private var current: [String: (number: Int, value: Connection)] = [:]
    private var lastNumber = 0

    subscript(place: String) -> (number: Int, value: Connection)? { current[place] }

    mutating func newNumber() -> Int {
        lastNumber += 1
        return lastNumber
    }

    mutating func note(_ connection: Connection, _ number: Int, of place: String) {
        current[place] = (number, connection)
    }

    func isCurrent(_ number: Int, of place: String) -> Bool { current[place]?.number == number }

    /// Nil if it is not the one there is, or has been removed.
    mutating func remove(_ number: Int, of place: String) -> Connection? {
        guard isCurrent(number, of: place) else { return nil }
        return current.removeValue(forKey: place)?.value
    }
}
