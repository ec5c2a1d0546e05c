import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore
import UbiquitySystem

struct KeyValueCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kv",
        abstract: "Read and change the key-value store: small values that all devices share.",
        discussion: """
            A store has at most 1,024 keys, and its values have at most 1 MiB together. A set is on the disk when the \
            command returns, with or without a cloud. If two devices set one key, the later set wins on all devices.
            """,
        subcommands: [Get.self, Set.self, Delete.self, List.self, Watch.self, Sync.self])

    /// Selects the store.
    struct StoreOptions: ParsableArguments {
        @Option(help: .init("The store, as a rule the app's id.", valueName: "id"))
        var store = "default"

        @Option(help: .init("The container, if several are mounted.", valueName: "id"))
        var container: String?

        @OptionGroup var state: StateOptions

        func mount() throws -> PathResolver.Location {
            guard let container else { return try state.mount(of: nil) }
            let mounts = try state.mounts().filter {
                Path.name(of: String(decoding: $0.source, as: UTF8.self)) == container
            }
            guard let only = mounts.first else {
                throw MountUnreachable("nothing to ask", "the container \"\(container)\" is not mounted")
            }
            guard mounts.count == 1 else {
                throw WrongUsage(
                    cause: UbiquityError(
                        .invalid, "several devices have mounted the container", remedy: "name the device: --state DIR"))
            }
            return PathResolver.Location(mountPoint: only.mountPoint, stateFolder: only.source, relativePath: [])
        }

        func asking<Value>(_ body: (DaemonConnection) async throws -> Value) async throws -> Value {
            try await Daemon.connected(to: String(decoding: try mount().stateFolder, as: UTF8.self), body)
        }
    }

    struct Get: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "get", abstract: "Print the value of a key.",
            discussion: "Data is printed as base64, arrays and dictionaries as JSON. --json prints the type, the time, "
                + "the device, and the overwritten value before.")

        @Argument(help: "The key.") var key: String
        @OptionGroup var store: StoreOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let report = try await store.asking { try await $0.keyValue(key, in: store.store) }
            if output.asJSON { return try Output.json(report) }
            guard let value = report.current.value else {
                throw UbiquityError(
                    .notFound, "the key was removed", at: key, remedy: "--json shows the value before")
            }
            Output.page(try KeyValueText.text(try value.value()))
        }
    }

    struct Set: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "set", abstract: "Set the value of a key.",
            discussion: "Without VALUE it reads standard input; a newline at the end does not count, except in data.")

        @Argument(help: "The key, at most 64 bytes of UTF-8.") var key: String
        @Argument(help: "The value. Data is base64 here, and plain bytes on standard input.") var value: String?

        @Option(help: .init("One of \(KeyValueText.Kind.names).", valueName: "type"))
        var type = KeyValueText.Kind.string

        @OptionGroup var store: StoreOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let wanted = try property()
            let report = try await store.asking { try await $0.setKeyValue(key, in: store.store, to: wanted) }
            if output.asJSON { try Output.json(report) }
        }

        private func property() throws -> PropertyValue {
            if let value { return try type.value(of: value) }
            // A little more than a value may have, so that a longer one is refused and not cut.
            let limit = 2 * KeyValueLimits.maximumBytes
            var bytes = try describing("read standard input") { () throws(Errno) in
                try StandardStreams.readAll(limit: limit)
            }
            if type == .data { return .data(bytes) }
            if bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
            guard let text = String(validating: bytes, as: UTF8.self) else {
                throw UbiquityError(.invalid, "standard input is not UTF-8", remedy: "use --type data")
            }
            return try type.value(of: text)
        }
    }

    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(commandName: "delete", abstract: "Remove a key.")

        @Argument(help: "The key.") var key: String
        @OptionGroup var store: StoreOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let report = try await store.asking { try await $0.removeKeyValue(key, in: store.store) }
            if output.asJSON { try Output.json(report) }
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the keys with their values.")

        @OptionGroup var store: StoreOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let list = try await store.asking { try await $0.keyValues(in: store.store) }
            for item in list.items {
                if output.asJSON {
                    try Output.json(item)
                } else if let value = try item.current.value?.value() {
                    Output.line("\(Output.shown(item.key))  \(Output.shown(try KeyValueText.text(value)))")
                }
            }
        }
    }

    struct Watch: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "watch",
            abstract: "Print a line for each change that other devices make, until the mount ends.",
            discussion: """
                A line has the reason and the key. The reasons are server-change, initial-sync, quota-violation and \
                account-change. 'ubiquity kv get' prints the new value. Sets of this device are not printed.
                """)

        @OptionGroup var store: StoreOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let location = try store.mount()
            let folder = String(decoding: location.stateFolder, as: UTF8.self)
            while true {
                try await Daemon.connected(to: folder) { daemon in
                    try await daemon.events { event in
                        guard event.kind == .keyValuesChanged, event.store == store.store else { return }
                        if output.asJSON { return try Output.json(event) }
                        for key in event.changedKeys ?? [] {
                            Output.line("\(event.reason ?? "")  \(Output.shown(key))")
                        }
                    }
                }
                // The stream also ends when the device changes its account. Then the mount stays.
                guard MountFinder.isAlive(stateFolder: location.stateFolder) else { break }
            }
            Output.message("the mount has ended")
        }
    }

    struct Sync: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "sync", abstract: "Send the sets of this device and read those of others, now.",
            discussion: "This also happens by itself: soon after a set, and when the cloud announces a change.")

        @OptionGroup var store: StoreOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            do {
                let list = try await Progress.showing("asking the cloud …") { _ in
                    try await store.asking { try await $0.synchronizeKeyValues(in: store.store) }
                }
                if output.asJSON { try Output.json(list) }
            } catch let error as UbiquityError where error.isAboutCloud {
                throw CloudUnreachable(cause: error)
            }
        }
    }
}

/// Values as text.
enum KeyValueText {
    enum Kind: String, CaseIterable, ExpressibleByArgument {
        case string, number, bool, date, data, json

        static let names = "string, number, bool, date, data and json"

        /// Throws `.invalid` if the text is not of the type.
        func value(of text: String) throws(UbiquityError) -> PropertyValue {
            switch self {
            case .string: return .string(text)
            case .number:
                if let number = Int64(text) { return .integer(number) }
                if let number = Double(text), number.isFinite { return .real(number) }
            case .bool:
                if ["true", "yes", "1"].contains(text) { return .bool(true) }
                if ["false", "no", "0"].contains(text) { return .bool(false) }
            case .date:
                if let seconds = Double(text), seconds.isFinite { return .date(seconds) }
                if let seconds = QueryMoment.seconds(text, now: Output.now()) { return .date(seconds) }
            case .data:
                if let bytes = Base64.decode(text) { return .data(bytes) }
            case .json: return try ControlCodec.decode(PlainValue.self, from: text.utf8).value
            }
            throw UbiquityError(
                .invalid, "not of the type \(rawValue): \"\(text.prefix(80))\"", remedy: Self.remedies[self] ?? "")
        }

        private static let remedies: [Kind: String] = [
            .number: "for example 42 or 0.5", .bool: "true or false",
            .date: "for example 2026-11-29T12:00:00Z, or seconds since 1970",
            .data: "base64, or plain bytes on standard input",
        ]
    }

    /// One line for a number, a flag, a date, data and JSON; a string as it is.
    static func text(_ value: PropertyValue) throws(UbiquityError) -> String {
        switch value {
        case .string(let text): text
        case .integer(let number): "\(number)"
        case .real(let number): "\(number)"
        case .bool(let flag): "\(flag)"
        case .date(let seconds): CivilTime.text(Timestamp(seconds: seconds))
        case .data(let bytes): Base64.encode(bytes)
        case .array, .dictionary: String(decoding: try ControlCodec.encode(PlainValue(value)), as: UTF8.self)
        }
    }
}
