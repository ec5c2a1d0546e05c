package import UbiquityCore

/// Options of mount(8), as this mount handles them.
package enum MountOptions {
    /// Options for mount(8) or its table only, and options on access times, which no read changes here. libfuse knows
    /// none of them.
    private static let meaningless: Set<String> = [
        "_netdev", "auto", "defaults", "diratime", "group", "lazytime", "loud", "noauto", "nodiratime", "nofail",
        "nolazytime", "norelatime", "nostrictatime", "nouser", "owner", "relatime", "silent", "strictatime", "user",
        "users",
    ]
    /// Options that the mount sets itself.
    private static let own: Set<String> = ["max_read", "subtype"]

    /// The options to pass to libfuse.
    /// - Throws: `.invalid` for an option that the mount sets itself.
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
