import UbiquityCore
import UbiquityFUSE
import UbiquitySystem
import UbiquityWire

/// The settings of a mount from the command line.
package struct MountSettings: Hashable, Sendable {
    package enum Policy: String, CaseIterable, Sendable {
        /// Content is downloaded when it is opened.
        case lazy
        /// All content is downloaded automatically, as long as the disk has space.
        case eager
    }

    /// The device's state folder, absolute.
    package var deviceFolder: String
    package var container: ContainerID
    /// A new name for the device; nil keeps the one it has.
    package var deviceName: String?
    package var policy: Policy
    /// Bytes of content that may be kept on this device; nil for no limit.
    package var cacheLimit: Int64?
    /// Bytes that stay free on the state folder's disk; nil for the default of that disk.
    package var diskFloor: Int64?
    /// False with `--no-passthrough`.
    package var allowsPassthrough: Bool
    /// With `--enable-io-uring`: enables io_uring for FUSE on the whole machine if it is off.
    package var enablesRings: Bool
    /// With `--allow-mass-delete`: many deletions at once are uploaded without confirmation.
    package var allowsMassDelete: Bool
    /// With `--trust-suid`: accepts set-user-id and set-group-id bits from other devices.
    package var trustsPrivileges: Bool
    /// With `--visible-conflicts`: losing versions are entries beside their documents.
    package var showsConflicts: Bool
    /// With `--coordination strict`: plain programs also wait for each other.
    package var isStrict: Bool
    /// Options of mount(8), from `-o`.
    package var options: [String]
    /// Absolute.
    package var mountPoint: String

    /// Default for the disk space that contents leave free: 1 GiB, enough for a desktop to keep working, but at most a
    /// twentieth of a small disk.
    package static func defaultDiskFloor(diskBytes: Int64) -> Int64 { min(1 << 30, max(0, diskBytes) / 20) }
    package static let defaultContainer = "default"
    /// Longest device name in bytes, as in the cloud.
    package static let maximumDeviceNameLength = MessageLimits.maximumDeviceNameLength

    package init(
        deviceFolder: String, container: String, deviceName: String?, policy: Policy, cacheLimit: Int64?,
        diskFloor: Int64?, allowsPassthrough: Bool, enablesRings: Bool = false, allowsMassDelete: Bool = false,
        trustsPrivileges: Bool = false, showsConflicts: Bool = false, isStrict: Bool = false, options: [String],
        mountPoint: String
    ) throws(UbiquityError) {
        guard let id = ContainerID(container) else {
            throw UbiquityError(
                .invalidName, "not a container's name: \"\(container)\"", remedy: "use \(ContainerID.rules)")
        }
        self.deviceFolder = deviceFolder
        self.container = id
        self.deviceName = deviceName
        self.policy = policy
        self.cacheLimit = cacheLimit
        self.diskFloor = diskFloor
        self.allowsPassthrough = allowsPassthrough
        self.enablesRings = enablesRings
        self.allowsMassDelete = allowsMassDelete
        self.trustsPrivileges = trustsPrivileges
        self.showsConflicts = showsConflicts
        self.isStrict = isStrict
        self.options = options
        self.mountPoint = mountPoint
    }

    /// Why the kernel must not serve files directly; nil if it may.
    var passthroughRefusal: String? {
        if !allowsPassthrough { return "turned off by --no-passthrough" }
        guard ProcessHost.variable(Self.passthroughVariable) == "off" else { return nil }
        return "turned off by \(Self.passthroughVariable)"
    }

    /// "off" turns passthrough off, for tests and where the command line cannot be changed.
    private static let passthroughVariable = "UBIQUITY_PASSTHROUGH"

    /// Whether the kernel's requests come by io_uring.
    func rings() -> RingSupport.Offer {
        guard ProcessHost.variable(Self.ringVariable) != "off" else {
            return RingSupport.Offer(refusal: "turned off by \(Self.ringVariable)")
        }
        return RingSupport.offer(turnsOn: enablesRings)
    }

    /// "off" turns io_uring off, for tests and where it is not wanted.
    private static let ringVariable = "UBIQUITY_IO_URING"

    /// How the threads that serve programs are scheduled.
    /// - Throws: `.invalid` if the variable names an unknown measure.
    func serving() throws(UbiquityError) -> ServingPolicy {
        try ServingPolicy(ProcessHost.variable(ServingPolicy.variable) ?? "")
    }

    /// The command line of a process that serves this mount in the foreground and reports on a pipe.
    package var serverArguments: [String] {
        var arguments = ["mount", "--foreground", "--report", "--state", deviceFolder, "--container", container.name]
        if let deviceName { arguments += ["--device", deviceName] }
        arguments += ["--policy", policy.rawValue]
        if let diskFloor { arguments += ["--disk-floor", String(diskFloor)] }
        if let cacheLimit { arguments += ["--cache-limit", String(cacheLimit)] }
        if !allowsPassthrough { arguments.append("--no-passthrough") }
        if enablesRings { arguments.append("--enable-io-uring") }
        if allowsMassDelete { arguments.append("--allow-mass-delete") }
        if trustsPrivileges { arguments.append("--trust-suid") }
        if showsConflicts { arguments.append("--visible-conflicts") }
        if isStrict { arguments += ["--coordination", "strict"] }
        for option in options { arguments += ["-o", option] }
        return arguments + ["--", mountPoint]
    }
}
