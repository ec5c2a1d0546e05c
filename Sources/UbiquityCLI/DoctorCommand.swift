import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore
import UbiquityDaemon

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Check index, contents and cloud against each other, and repair the differences.",
        discussion: """
            It checks the mount that you name; with --state, a container of the device that is not mounted. Damaged \
            contents move to the folder 'set-aside' in the state folder, and are never deleted. Exit code 0: no \
            finding remains. 1: a finding remains. 3: the cloud could not be asked, and there is no other finding.

            --portable lists the names below a path that other systems cannot hold: case twins, "CON", "a:b", a dot at \
            the end. They are allowed here, so nothing is repaired. Exit code 1: there are such names.
            """)

    @Flag(help: "Repair nothing; exit with 1 if there are findings.")
    var check = false

    @Flag(help: "Check that contents exist, without reading their bytes.")
    var quick = false

    @Flag(help: "List names that other systems cannot hold, and check nothing else.")
    var portable = false

    @OptionGroup var state: StateOptions

    @Option(help: .init("With --state: the container.", valueName: "id"))
    var container = MountSettings.defaultContainer

    @Argument(help: "The mount point, or any path in it; not needed if there is one mount.")
    var mountPoint: String?

    @OptionGroup var output: OutputOptions

    func validate() throws {
        if mountPoint != nil, state.folder != nil { throw ValidationError("--state and a mount exclude each other") }
        if portable, state.folder != nil { throw ValidationError("--portable is for a mount; --state excludes it") }
    }

    func run() async throws {
        guard !portable else { return try listUnportable() }
        let report = try await examine()
        if output.asJSON {
            try Output.json(report)
        } else {
            report.findings.forEach { Output.line(Self.text(of: $0)) }
            Output.line(Self.summary(of: report))
        }
        if report.isUnwell { throw ExitCode(ExitStatus.failed) }
        if let problem = report.cloudProblem {
            Output.message("the cloud was not asked: \(problem)")
            throw ExitCode(ExitStatus.unreachable)
        }
    }

    private func listUnportable() throws {
        let location = try state.mount(of: mountPoint)
        let folder = mountPoint ?? String(decoding: location.mountPoint, as: UTF8.self)
        var count = 0
        try PortableCheck.run(below: folder) { finding in
            count += 1
            if output.asJSON { return try Output.json(finding) }
            Output.line("\(Output.shown(finding.path)): \(finding.problems.map(Output.shown).joined(separator: "; "))")
        }
        guard count > 0 else { return }
        Output.message("\(Output.count(count, "name")) cannot be used on all systems")
        throw ExitCode(ExitStatus.failed)
    }

    private func examine() async throws -> DoctorReport {
        let wanted = DoctorRequest(check: check, quick: quick)
        guard try mountPoint != nil || !state.isUnmounted() else {
            return try await Progress.showing("checking …") { _ in
                try await Doctor.examine(deviceFolder: state.resolved(), container: container, wanted)
            }
        }
        let location = try state.mount(of: mountPoint)
        return try await Daemon.asking(location, "checking …") { try await $0.ask(ControlRoute.doctor, wanted) }
    }

    private static func text(of finding: DoctorFinding) -> String {
        let what = "\(finding.kind)  \(finding.subject): \(finding.detail)"
        switch finding.outcome {
        case .found: return what
        case .repaired: return "\(what) - repaired: \(finding.remark ?? "")"
        case .unrepaired: return "\(what) - NOT repaired: \(finding.remark ?? "")"
        }
    }

    private static func summary(of report: DoctorReport) -> String {
        let found = report.findings.isEmpty ? "nothing wrong" : Output.count(report.findings.count, "finding")
        let looked = [
            Output.count(report.contents, "content"), Output.count(report.items, "item") + " of the cloud",
            Output.count(report.chunks, "chunk"),
        ]
        return "\(found); checked \(looked.joined(separator: ", "))"
    }
}
