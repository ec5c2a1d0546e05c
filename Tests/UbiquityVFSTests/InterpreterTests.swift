import Testing
@testable import UbiquityVFS

/// Finds the script in a command line.
struct InterpreterTests {
    @Test(arguments: [
        "python3 bin/duplicity F", "python3 -su bin/duplicity", "python3 -E -s bin/duplicity F",
        "python3 -X utf8 bin/duplicity", "python3 -Xutf8 bin/duplicity", "python3.11 -W ignore -B bin/duplicity",
        "python3 -sWignore bin/duplicity", "python3 -m duplicity F", "python3 -Im duplicity",
        "python3 --check-hash-based-pycs never duplicity", "python3 -- duplicity",
        "bash -e bin/duplicity", "bash --norc duplicity", "bash -euo pipefail bin/duplicity F",
        "bash --rcfile x duplicity", "sh +o posix duplicity", "dash -x duplicity -c", "perl -w -I lib bin/duplicity",
        "perl -Ilib/e duplicity", "ruby -W0 -r set duplicity", "node --import x --title=y duplicity",
    ])
    func scriptNameIsFound(line: String) { #expect(script(line) == "duplicity") }

    @Test(arguments: [
        "python3", "python3 -c code duplicity", "python3 -Ic code duplicity", "bash -c duplicity", "bash -ec x duplicity",
        "sh -s duplicity", "perl -ne code duplicity", "node -e code duplicity", "node --eval code duplicity", "cat duplicity",
        "python3 cat duplicity", "python3 -m cat duplicity",
    ])
    func otherArgumentsAreNoScript(line: String) { #expect(script(line) != "duplicity") }

    private func script(_ line: String) -> String? {
        let words = line.split(separator: " ")
        return Interpreter.named(String(words[0]))?.script(in: words.dropFirst().map { Array($0.utf8)[...] })
    }
}
