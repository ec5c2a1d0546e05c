import Crypto

/// The stored form of a link's password: PBKDF2 with HMAC-SHA-256 (RFC 8018) and a salt of its own.
struct LinkPassword {
    let salt: [UInt8]
    let rounds: Int
    let hash: [UInt8]

    init(salt: [UInt8], rounds: Int, hash: [UInt8]) {
        self.salt = salt
        self.rounds = rounds
        self.hash = hash
    }

    init(_ password: String, salt: [UInt8], rounds: Int) {
        self.init(salt: salt, rounds: rounds, hash: Self.derive(password, salt, rounds))
    }

    func matches(_ password: String) -> Bool {
        let other = Self.derive(password, salt, rounds)
        // All bytes are compared, so that the time tells nothing.
        return other.count == hash.count && zip(other, hash).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
    }

    /// One block of 32 bytes.
    private static func derive(_ password: String, _ salt: [UInt8], _ rounds: Int) -> [UInt8] {
        let keyed = HMAC<SHA256>(key: SymmetricKey(data: Array(password.utf8)))
        var first = keyed
        first.update(data: salt + [0, 0, 0, 1])
        var block = Array(first.finalize())
        var result = block
        for _ in 1..<max(1, rounds) {
            var next = keyed
            next.update(data: block)
            block = Array(next.finalize())
            for index in result.indices { result[index] ^= block[index] }
        }
        return result
    }
}
