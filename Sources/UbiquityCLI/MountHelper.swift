import ArgumentParser
import Ubiquity
import UbiquityCore
import UbiquitySystem

/// The program as mount(8) calls it: `mount.ubiquity STATE MOUNTPOINT [-sfnv] [-N NAMESPACE] [-t TYPE] [-o OPTIONS]`.
///
/// The options of `ubiquity mount` have no dashes here: `container=work,policy=eager`. All others go to the kernel.
struct MountHelper {
    /// The names under which mount(8) looks for a helper.
    static let names: Set<String> = ["mount.ubiquity", "mount.fuse.ubiquity"]

    /// Exit codes of mount(8).
    enum Status {
        static let wrongUsage: Int32 = 1
        static let failed: Int32 = 32
    }

    /// Options of `ubiquity mount` with a value.
    private static let valued: Set<String> = [
        "container", "device", "policy", "cache-limit", "disk-floor", "coordination",
    ]
    /// Options of `ubiquity mount` without a value.
    private static let flags: Set<String> = [
        "no-passthrough", "enable-io-uring", "allow-mass-delete", "trust-suid", "visible-conflicts",
    ]
    /// Sources that name no state folder: the default one of the user.
    private static let unnamed: Set<String> = ["", "none", "ubiquity"]

    /// The device's state folder; nil for the default.
    private(set) var state: String?
    private(set) var mountPoint = ""
    /// The user that serves the mount; nil for the caller.
    private(set) var user: String?
    /// With `-f` nothing is mounted.
    private(set) var isFake = false
    private var given: [String] = []
    private var kernel: [String] = []

    /// - Throws: `WrongUsage`.
    init(_ arguments: [String]) throws {
        var places: [String] = []
        var next = arguments[...]
        while let argument = next.popFirst() {
            switch argument {
            case "-o": try add(options: Self.value(of: argument, &next))
            case "-t": _ = try Self.value(of: argument, &next)
            case "-N":
                throw Self.wrong("-N: cannot mount in another namespace", "run the command there: nsenter(1)")
            case _ where argument.hasPrefix("-") && argument.dropFirst().allSatisfy("sfnv".contains):
                isFake = isFake || argument.contains("f")
            case _ where argument.hasPrefix("-"): throw Self.wrong("unknown option \(argument)", Self.usage)
            default: places.append(argument)
            }
        }
        guard places.count == 2 else { throw Self.wrong("\(places.count) places given, two needed", Self.usage) }
        state = Self.unnamed.contains(places[0]) ? nil : places[0]
        mountPoint = places[1]
    }

    private static let usage = "mount -t ubiquity STATE MOUNTPOINT [-o OPTIONS]"

    private static func wrong(_ what: String, _ remedy: String) -> WrongUsage {
        WrongUsage(cause: UbiquityError(.invalid, what, remedy: remedy))
    }

    private static func value(of option: String, _ next: inout ArraySlice<String>) throws -> String {
        guard let value = next.popFirst() else { throw wrong("\(option) without a value", usage) }
        return value
    }

    private mutating func add(options: String) throws {
        for option in options.split(separator: ",").map(String.init) {
            let parts = option.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            switch (parts[0], parts.count > 1 ? parts[1] : nil) {
            case ("setuid", let name?): user = name
            case (let name, let value?) where Self.valued.contains(name): given += ["--\(name)", value]
            case (let name, nil) where Self.flags.contains(name): given.append("--\(name)")
            case (let name, _) where Self.valued.contains(name) || name == "setuid":
                throw Self.wrong("the option \(name) needs a value", "write \(name)=VALUE")
            default: kernel.append(option)
            }
        }
    }

    /// The arguments of `ubiquity` for the same mount.
    var arguments: [String] {
        var result = ["mount", "--quiet"]
        if let state { result += ["--state", state] }
        result += given
        if !kernel.isEmpty { result += ["-o", kernel.joined(separator: ",")] }
        return result + ["--", mountPoint]
    }

    /// Mounts, and ends the process with an exit code of mount(8).
    static func run(_ arguments: [String]) async -> Never {
        do {
            let helper = try MountHelper(arguments)
            if !helper.isFake { try await helper.mount() }
            ProcessHost.exit(0)
        } catch let error as WrongUsage {
            Output.error(error.cause)
            ProcessHost.exit(Status.wrongUsage)
        } catch let error as UbiquityError {
            Output.error(error)
        } catch let error as MountUnreachable {
            Output.error(UbiquityError(.offline, error.reason), about: error.place)
        } catch {
            Output.page(UbiquityCommand.fullMessage(for: error), to: 2)
        }
        ProcessHost.exit(Status.failed)
    }

    private func mount() async throws {
        if let user { try become(user) }
        // `mount -a` compares sources. The kernel's table has the container's folder, fstab that of the device.
        guard try !isMounted() else { return }
        guard var command = try UbiquityCommand.parseAsRoot(arguments) as? any AsyncParsableCommand else { return }
        try await command.run()
    }

    private func become(_ name: String) throws {
        let account = try describing("find the user \(name)") { () throws(Errno) in try UserAccount.named(name) }
        guard let account else {
            throw UbiquityError(.notFound, "setuid=\(name): there is no such user", remedy: "see getent passwd")
        }
        guard ProcessHost.userID != account.user else { return }
        try describing("become the user \(name)") { () throws(Errno) in try account.become() }
    }

    /// Whether a container of the device is mounted there already.
    private func isMounted() throws -> Bool {
        guard let device = state else { return false }
        let place = try MountFinder.absolute(mountPoint)
        let prefix = try MountFinder.absolute(device) + [UInt8(ascii: "/")]
        return try MountFinder.table().containers.contains { mount in
            mount.mountPoint == place && mount.source.starts(with: prefix)
                && MountFinder.isAlive(stateFolder: mount.source)
        }
    }
}
