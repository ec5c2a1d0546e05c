internal import UbiquitySystem

/// Finds the script in an interpreter's command line: the first argument that is neither an option nor an option's
/// value.
///
/// An unknown option counts as one without a value. If it has one, that is taken for the script's name; it will hardly
/// match a name that is looked for.
struct Interpreter {
    /// Letters that take the next argument, alone or at the end of a cluster (`-euo pipefail`).
    private var valued: Set<UInt8> = []
    /// Letters whose value is the remaining part of the cluster (`-Ilib`, `-Wignore`).
    private var attached: Set<UInt8> = []
    /// Letters that pass code directly or read it from the input: there is no script.
    private var code: Set<UInt8> = []
    /// Letters whose value is a module to run.
    private var module: Set<UInt8> = []
    /// Long options that take the next argument.
    private var longValued: Set<String> = []
    private var longCode: Set<String> = []
    /// Whether options may begin with a plus sign.
    private var hasPlusOptions = false

    private static let python = Interpreter(
        valued: Set("WX".utf8), attached: Set("WX".utf8), code: Set("c".utf8), module: Set("m".utf8),
        longValued: ["--check-hash-based-pycs"])
    private static let shell = Interpreter(
        valued: Set("oO".utf8), code: Set("cs".utf8), longValued: ["--rcfile", "--init-file"], hasPlusOptions: true)
    private static let perl = Interpreter(
        valued: Set("I".utf8), attached: Set("IMmixFCDl0".utf8), code: Set("eE".utf8))
    private static let ruby = Interpreter(
        valued: Set("Ir".utf8), attached: Set("IrEKWTFxi0C".utf8), code: Set("e".utf8))
    private static let node = Interpreter(
        valued: Set("rC".utf8), code: Set("ep".utf8),
        longValued: ["--require", "--import", "--conditions", "--loader", "--experimental-loader"],
        longCode: ["--eval", "--print"])

    private static let all: [String: Interpreter] = [
        "python": python, "pypy": python, "perl": perl, "ruby": ruby, "node": node, "bash": shell, "dash": shell,
        "sh": shell, "ksh": shell, "zsh": shell,
    ]

    private enum Step { case skip, skipValue, nextIsName, none }

    /// - Parameter program: the interpreter's name, possibly with a version.
    static func named(_ program: String) -> Interpreter? {
        all[String(program.prefix { !$0.isNumber && $0 != "." })]
    }

    /// The name of the script or module that a command line runs; nil if it runs neither.
    /// - Parameter arguments: without the program.
    func script(in arguments: some Sequence<ArraySlice<UInt8>>) -> String? {
        var isValue = false, isName = false, isOption = true
        for argument in arguments {
            if isValue {
                isValue = false
                continue
            }
            guard isOption, !isName, argument.count > 1, isMark(argument.first) else {
                return Path.name(of: String(decoding: argument, as: UTF8.self))
            }
            switch step(argument) {
            case .skip: isOption = !argument.elementsEqual("--".utf8)
            case .skipValue: isValue = true
            case .nextIsName: isName = true
            case .none: return nil
            }
        }
        return nil
    }

    private func isMark(_ byte: UInt8?) -> Bool {
        byte == UInt8(ascii: "-") || hasPlusOptions && byte == UInt8(ascii: "+")
    }

    private func step(_ option: ArraySlice<UInt8>) -> Step {
        if option.starts(with: "--".utf8) {
            let text = String(decoding: option, as: UTF8.self)
            return longCode.contains(text) ? .none : longValued.contains(text) ? .skipValue : .skip
        }
        var rest = option.dropFirst()
        while let letter = rest.popFirst() {
            if code.contains(letter) { return .none }
            if module.contains(letter) { return rest.isEmpty ? .nextIsName : .none }
            if valued.contains(letter), rest.isEmpty { return .skipValue }
            if attached.contains(letter) { return .skip }
        }
        return .skip
    }
}
