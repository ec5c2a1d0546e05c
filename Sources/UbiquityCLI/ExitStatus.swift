import ArgumentParser
import Ubiquity
import UbiquityCore
import UbiquitySystem

/// The exit codes of every command.
enum ExitStatus {
    /// The operation failed; one line said what, where and what to do.
    static let failed: Int32 = 1
    static let wrongUsage: Int32 = 2
    /// No mount or no cloud could be reached.
    static let unreachable: Int32 = 3

    /// Says what an error says and ends the process with its code.
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

    /// Help and version are no failures; all else that the parser throws is wrong usage, for which it has a code of
    /// its own (64, of sysexits.h).
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

/// What was asked for cannot be told from what the command was given.
struct WrongUsage: Error {
    var cause: UbiquityError
}

/// The cloud did not answer a command that needs it.
struct CloudUnreachable: Error {
    var cause: UbiquityError
}

extension UbiquityError {
    /// Whether it says that the cloud did not answer.
    var isAboutCloud: Bool { [.offline, .timedOut].contains(code) }
}
