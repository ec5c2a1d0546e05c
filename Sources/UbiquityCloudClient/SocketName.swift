internal import UbiquityCore
internal import UbiquitySystem

/// A Unix socket's path in a form that can be connected to. A path too long for a socket's address goes through an open
/// descriptor of its folder. The descriptor is kept, because its number is part of the connections' name.
final class SocketName: Sendable {
    private let path: String
    private let address = Lock<SocketAddressPath?>(nil)

    init(_ path: String) { self.path = path }

    /// - Throws: `.offline` if the folder does not exist, and so no cloud either.
    func usable() throws(UbiquityError) -> String {
        if let known = address.withLock({ $0?.usable }) { return known }
        let found: SocketAddressPath
        do {
            found = try SocketAddressPath(path)
        } catch where error.code == .notFound {
            throw UbiquityError(.offline, "no cloud has been started", at: path)
        }
        return address.withLock { address in
            if let first = address { return first.usable }
            address = found
            return found.usable
        }
    }

    func forget() { address.withLock { $0 = nil } }
}
