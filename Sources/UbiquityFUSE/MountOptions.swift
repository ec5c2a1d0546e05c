package import UbiquityCore

/// Options of mount(8), as they are for this mount.
package enum MountOptions {
    /// What mount(8) keeps for itself or its table, and what says how access times are kept, which no read changes
    /// here. libfuse knows none of them.
    private static let meaningless: Set<String> = [
        "_netdev", "auto", "defaults", "diratime", "group", "lazytime", "loud", "noauto", "nodiratime", "nofail",
        "nolazytime", "norelatime", "nostrictatime", "nouser", "owner", "relatime", "silent", "strictatime", "user",
        "users",
    ]
    /// What the mount sets itself.
    private static let own: Set<String> = ["max_read", "subtype"]

    /// What libfuse is told of the options that a person has given.
    /// - Throws: `.invalid` for one that would make the mount another one than the program knows.
    package static func accepted(_ given: [String]) throws(UbiquityError) -> [String] {
        for option in given where own.contains(name(of: option)) {
            throw UbiquityError(
                .invalid, "cannot mount: the option \"\(name(of: option))\" is set by the mount itself", at: option,
                remedy: "leave it out")
        }
        return given.filter { !meaningless.contains($0) && !$0.hasPrefix("x-") && !$0.hasPrefix("X-") }
    }

    private static func name(of option: String) -> String {
        String(option.prefix { $0 != "=" })
    }
}
