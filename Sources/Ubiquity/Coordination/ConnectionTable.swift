/// The current connection per place, each with a number. The number keeps a connection that ends late from removing its
/// successor.
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

    /// Removes the connection and returns it; nil if it is not the current one or was removed before.
    mutating func remove(_ number: Int, of place: String) -> Connection? {
        guard isCurrent(number, of: place) else { return nil }
        return current.removeValue(forKey: place)?.value
    }
}
