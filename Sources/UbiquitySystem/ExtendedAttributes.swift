import CUbiquityShims
import Glibc

/// Whether an extended attribute must be new, must exist, or either.
package enum XattrMode: Int32, Sendable {
    case either = 0
    case create = 1
    case replace = 2
}

extension FileDescriptor {
    /// Returns the value of an attribute; nil if the file does not have it.
    package func xattr(_ name: some CPath) throws(Errno) -> [UInt8]? {
        try name.withCPath { name throws(Errno) in
            try xattrValue { CUbiquity_fgetxattr(rawValue, name, $0, $1) }
        }
    }

    package func setXattr(_ name: some CPath, _ value: [UInt8], _ mode: XattrMode = .either) throws(Errno) {
        _ = try name.withCPath { name throws(Errno) in
            try check(CUbiquity_fsetxattr(rawValue, name, value, value.count, mode.rawValue))
        }
    }

    package func removeXattr(_ name: some CPath) throws(Errno) {
        _ = try name.withCPath { name throws(Errno) in try check(CUbiquity_fremovexattr(rawValue, name)) }
    }

    package func xattrNames() throws(Errno) -> [[UInt8]] {
        try xattrList { CUbiquity_flistxattr(rawValue, $0?.assumingMemoryBound(to: CChar.self), $1) }
    }
}

extension FileSystem {
    /// Returns the value of an attribute, for a symlink its own; nil if the item does not have it.
    package static func xattr(_ path: some CPath, _ name: some CPath) throws(Errno) -> [UInt8]? {
        try path.withCPath { path throws(Errno) in
            try name.withCPath { name throws(Errno) in
                try xattrValue { CUbiquity_lgetxattr(path, name, $0, $1) }
            }
        }
    }

    package static func setXattr(
        _ path: some CPath, _ name: some CPath, _ value: [UInt8], _ mode: XattrMode = .either
    ) throws(Errno) {
        _ = try path.withCPath { path throws(Errno) in
            try name.withCPath { name throws(Errno) in
                try check(CUbiquity_lsetxattr(path, name, value, value.count, mode.rawValue))
            }
        }
    }

    package static func removeXattr(_ path: some CPath, _ name: some CPath) throws(Errno) {
        _ = try path.withCPath { path throws(Errno) in
            try name.withCPath { name throws(Errno) in try check(CUbiquity_lremovexattr(path, name)) }
        }
    }

    package static func xattrNames(_ path: some CPath) throws(Errno) -> [[UInt8]] {
        try path.withCPath { path throws(Errno) in
            try xattrList { CUbiquity_llistxattr(path, $0?.assumingMemoryBound(to: CChar.self), $1) }
        }
    }
}

private typealias XattrCall = (UnsafeMutableRawPointer?, Int) -> Int

/// Reads the size, then the value, and repeats if the value has grown in between.
private func xattrBytes(_ call: XattrCall) throws(Errno) -> [UInt8] {
    while true {
        let size = try check(call(nil, 0))
        if size == 0 { return [] }
        var failure: Errno?
        let bytes = [UInt8](unsafeUninitializedCapacity: size) { buffer, initialized in
            do throws(Errno) { initialized = try check(call(buffer.baseAddress, size)) } catch { failure = error }
        }
        guard let failure else { return bytes }
        if failure != .ERANGE { throw failure }
    }
}

private func xattrValue(_ call: XattrCall) throws(Errno) -> [UInt8]? {
    do throws(Errno) { return try xattrBytes(call) } catch .ENODATA { return nil }
}

private func xattrList(_ call: XattrCall) throws(Errno) -> [[UInt8]] {
    try xattrBytes(call).split(separator: 0).map(Array.init)
}
