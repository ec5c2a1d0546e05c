import ArgumentParser
import UbiquityDaemon

/// Which device on this machine a command is about.
struct StateOptions: ParsableArguments {
    @Option(
        name: .customLong("state"),
        help: .init("Folder of this device's state; two folders are two devices. [UBIQUITY_STATE]", valueName: "dir"))
    var folder: String?

    /// The folder, absolute.
    func resolved() throws -> String { try DeviceFolder.path(option: folder) }
}

/// How results are printed.
struct OutputOptions: ParsableArguments {
    @Flag(name: .customLong("json"), help: "Print JSON, one object a line.")
    var asJSON = false
}
