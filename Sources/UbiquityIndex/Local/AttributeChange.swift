package import UbiquityCore

/// New values of a row's attributes; nil leaves a value unchanged.
package struct AttributeChange: Sendable {
    package var mode: UInt32?
    package var uid: UInt32?
    package var gid: UInt32?
    package var modifiedAt: Timestamp?

    package init(mode: UInt32? = nil, uid: UInt32? = nil, gid: UInt32? = nil, modifiedAt: Timestamp? = nil) {
        self.mode = mode
        self.uid = uid
        self.gid = gid
        self.modifiedAt = modifiedAt
    }
}

extension [Xattr] {
    /// Bytes of names and values.
    var byteCount: Int { reduce(0) { $0 + $1.name.count + $1.value.count } }

    /// Returns these attributes overlaid with `newer`; only the newer ones if all together exceed the limit.
    func overlaid(with newer: [Xattr]) -> [Xattr] {
        guard !newer.isEmpty else { return self }
        let all = (filter { old in !newer.contains { $0.name == old.name } } + newer).sorted()
        return all.byteCount <= Limits.maximumXattrBytes ? all : newer
    }
}
