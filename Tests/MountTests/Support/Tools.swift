import Foundation
import Testing

/// Programs that tests run.
enum Tools {
    /// Runs a Python program, which must succeed; its output without the last newline.
    @discardableResult
    static func python(
        _ program: String, in world: World, within limit: Double = Command.usualLimit
    ) async throws -> String {
        let outcome = try await world.attempt(["/usr/bin/python3", "-c", preamble + program], within: limit)
        guard outcome.status == 0 else { throw Command.Failure(description: "\(program)\n\(outcome)") }
        return outcome.text
    }

    private static let preamble = """
        import os, sys, errno, ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        def renameat2(a, b, flags):
            if libc.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), flags) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), a)
        def fails(name, call):
            try:
                call()
            except OSError as error:
                assert error.errno == getattr(errno, name), f'{errno.errorcode[error.errno]} instead of {name}'
            else:
                raise AssertionError(f'no {name}')

        """

    /// All properties that synced devices must agree on, a line for each item below a folder: name, type, mode, time,
    /// link target, size, bytes and extended attributes.
    static func picture(of folder: String, in world: World) async throws -> String {
        try await python(pictureProgram + "\nshow('\(folder)')\n", in: world, within: 240)
    }

    private static let pictureProgram = """
        import hashlib, stat
        def describe(path):
            status = os.lstat(path)
            kind = stat.S_IFMT(status.st_mode)
            words = [oct(status.st_mode), str(status.st_mtime_ns)]
            if kind == stat.S_IFLNK:
                words.append('-> ' + os.readlink(path))
            else:
                for name in sorted(os.listxattr(path)):
                    if name.startswith('user.') and not name.startswith('user.ubiquity.'):
                        words.append(name + '=' + os.getxattr(path, name).hex())
            if kind == stat.S_IFREG:
                digest = hashlib.sha256()
                with open(path, 'rb') as file:
                    while block := file.read(1 << 20):
                        digest.update(block)
                words += [str(status.st_size), digest.hexdigest()]
            return ' '.join(words)
        def show(top):
            for folder, folders, files in os.walk(top):
                for name in sorted(folders) + sorted(files):
                    path = os.path.join(folder, name)
                    print(repr(os.path.relpath(path, top)), describe(path))
        """

    /// Types into a program on its own terminal: each step waits for a text on the screen, then types.
    static func type(
        _ steps: [(seen: String, keys: String)], into arguments: [String], in world: World
    ) async throws {
        let list = steps.map { "(\(quoted($0.seen)), \(quoted($0.keys)))" }.joined(separator: ", ")
        let words = arguments.map(quoted).joined(separator: ", ")
        try await python(terminalProgram + "\nplay([\(list)], [\(words)])\n", in: world)
    }

    private static func quoted(_ text: String) -> String {
        "bytes([" + text.utf8.map(String.init).joined(separator: ",") + "])"
    }

    private static let terminalProgram = """
        import pty, select, time
        def play(steps, arguments):
            child, terminal = pty.fork()
            if child == 0:
                os.environ['TERM'] = 'xterm'
                os.execvp(arguments[0], arguments)
            screen, end = b'', time.monotonic() + 40
            def look(wanted):
                nonlocal screen
                while wanted is None or wanted not in screen:
                    assert time.monotonic() < end, (wanted, screen)
                    if not select.select([terminal], [], [], 1)[0]:
                        continue
                    try:
                        read = os.read(terminal, 65536)
                    except OSError:
                        read = b''
                    if not read:
                        assert wanted is None, (wanted, screen)
                        return
                    screen += read
                screen = screen.split(wanted, 1)[1]
            for wanted, keys in steps:
                look(wanted)
                os.write(terminal, keys)
            look(None)
            status = os.waitpid(child, 0)[1]
            assert status == 0, (status, screen)
        """
}

/// Pictures of several folders must be the same; a failure shows the differences line by line.
func expectSame(
    _ pictures: [String], _ what: String, sourceLocation: SourceLocation = #_sourceLocation
) {
    guard let first = pictures.first else { return }
    for (number, other) in pictures.enumerated().dropFirst() where other != first {
        let mine = Set(first.split(separator: "\n")), theirs = Set(other.split(separator: "\n"))
        let only = (mine.subtracting(theirs).map { "- \($0)" } + theirs.subtracting(mine).map { "+ \($0)" })
            .sorted { $0.dropFirst(2) < $1.dropFirst(2) }
        let shown = only.prefix(30).joined(separator: "\n")
        Issue.record(
            "\(what): 0 and \(number) differ in \(only.count) lines\n\(shown)", sourceLocation: sourceLocation)
    }
}
