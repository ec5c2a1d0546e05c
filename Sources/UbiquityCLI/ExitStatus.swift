import ArgumentParser
import Ubiquity
import UbiquityCore
import UbiquitySystem

/// The exit codes of every command.
enum ExitStatus {
    /// The operation failed; one line named what, where, and the remedy.
    static let failed: Int32 = 1
    static let wrongUsage: Int32 = 2
    /// No mount or no cloud could be reached.
    static let unreachable: Int32 = 3

    /// Prints an error and ends the process with its exit code.
    static func end(with error: any Error) -> Never {
        switch error {
        case let code as ExitCode:
            ProcessHost.exit(code.rawValue)
        case let error as MountUnreachable:
            Output.error(UbiquityError(.offline, error.reason), about: error.place)
            ProcessHost.exit(unreachable)
        case let error as CloudUnreachable:
            Output.error(error.cause)
            ProcessHost.exit(unreachable)
        case let error as WrongUsage:
            Output.error(error.cause)
            ProcessHost.exit(wrongUsage)
        case let error as UbiquityError:
            Output.error(error)
            ProcessHost.exit(failed)
        default:
            endAsParserWants(error)
        }
    }

    /// Help and version are no failures. All other errors of the parser are wrong usage; the parser's own code for that
    /// is 64 of sysexits.h.
    private static func endAsParserWants(_ error: any Error) -> Never {
        let code = UbiquityCommand.exitCode(for: error)
        let text = UbiquityCommand.fullMessage(for: error)
        guard code != .success else {
            Output.page(text)
            ProcessHost.exit(0)
        }
        if Output.isJSON {
            Output.error(UbiquityError(.invalid, text))
        } else {
            Output.page(text, to: 2)
        }
        ProcessHost.exit(code == .validationFailure ? wrongUsage : failed)
    }
}

/// The arguments do not determine what to do.
struct WrongUsage: Error {
    var cause: UbiquityError
}

/// The cloud did not answer a command that needs it.
struct CloudUnreachable: Error {
    var cause: UbiquityError
}

extension UbiquityError {
    /// Whether it means that the cloud did not answer.
    var isAboutCloud: Bool { [.offline, .timedOut].contains(code) }
}
