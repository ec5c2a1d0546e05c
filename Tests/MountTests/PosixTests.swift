import Glibc
import Testing
import UbiquityControl

/// POSIX behaviour of files, as programs see it in a mount. The suites of `scripts/conformance` go further.
@Suite struct PosixTests {
    @Test func hardLinksAreOneFileOnEveryDevice() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d; echo one > f; ln f d/g; ln f h; cp -a . '\(world.folder)/copy'")
            #expect(try await world.shell("stat -c %h '\(world.folder)/copy/f'") == "3")
            try await world.settle(a, b)
            for device in [a, b] {
                #expect(try await device.shell("stat -c %h f d/g h") == "3\n3\n3")
                #expect(try await device.shell("stat -c %i f d/g h | sort -u | wc -l") == "1")
                #expect(try await device.shell("find . -samefile f | sort") == "./d/g\n./f\n./h")
            }
            try await b.shell("cat f; echo two >> h; rm f")
            try await world.settle(b, a)
            #expect(try await a.shell("cat d/g; stat -c %h h; ls") == "one\ntwo\n2\nd\nh")
            // Both remove another name, without knowing of each other.
            try await a.ubiquity("offline", "")
            try await a.shell("mv d/g d/i")
            try await b.shell("ln h j")
            try await a.ubiquity("online", "")
            try await world.settle(a, b)
            for device in [a, b] {
                #expect(try await device.shell("cat d/i; cat h j; stat -c %h h") == "one\ntwo\none\ntwo\none\ntwo\n3")
            }
            try await a.killAndMount()
            #expect(try await a.shell("stat -c %h d/i; rm h j; cat d/i; stat -c %h d/i") == "3\none\ntwo\n1")
            try await world.settle(a, b)
            #expect(try await b.shell("ls . d; cat d/i") == ".:\nd\n\nd:\ni\none\ntwo")
        }
    }

    @Test func specialFilesWorkAndAreNotSynced() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d; mkfifo d/pipe; (echo through > d/pipe &) ; test \"$(cat d/pipe)\" = through")
            try await a.python(
                """
                import socket, stat
                server = socket.socket(socket.AF_UNIX)
                os.chdir('d')
                server.bind('socket')
                server.listen()
                client = socket.socket(socket.AF_UNIX)
                client.connect('socket')
                assert stat.S_ISSOCK(os.stat('socket').st_mode)
                os.link('pipe', 'pipe2')
                assert os.stat('pipe').st_nlink == 2
                if os.geteuid() == 0:
                    os.mknod('null', stat.S_IFCHR | 0o666, os.makedev(1, 3))
                    assert os.stat('null').st_rdev == os.makedev(1, 3)
                    os.remove('null')
                """)
            try await world.settle(a, b)
            #expect(try await b.shell("ls d") == "")
            #expect(try await a.report("d/pipe").isExcludedFromSync)
            try await a.killAndMount()
            #expect(try await a.shell("stat -c %F d/pipe d/pipe2 d/socket; rm -r d") == "fifo\nfifo\nsocket")
        }
    }

    @Test func openFilesBehaveAsOnADisk() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.python(
                """
                import fcntl, mmap, subprocess, time
                with open('f', 'w+b') as f:
                    f.write(b'x' * 10000)
                    f.flush()
                    os.remove('f')
                    assert os.fstat(f.fileno()).st_nlink == 0
                    f.seek(0)
                    assert f.read() == b'x' * 10000
                # O_APPEND: each write goes to the end, wherever another has put that.
                one, two = os.open('log', os.O_CREAT | os.O_WRONLY | os.O_APPEND), os.open('log', os.O_WRONLY | os.O_APPEND)
                for _ in range(100):
                    os.write(one, b'1'); os.write(two, b'2')
                assert os.stat('log').st_size == 200
                # A sparse file keeps its hole.
                with open('sparse', 'wb') as f:
                    f.seek(1 << 20)
                    f.write(b'end')
                fd = os.open('sparse', os.O_RDONLY)
                assert os.lseek(fd, 0, os.SEEK_DATA) == 1 << 20 and os.lseek(fd, 0, os.SEEK_HOLE) == 0
                assert os.stat('sparse').st_blocks < 100
                # Shared memory is the file.
                with open('map', 'w+b') as f:
                    f.truncate(8192)
                    memory = mmap.mmap(f.fileno(), 8192)
                    memory[4096:4100] = b'here'
                    memory.flush()
                    assert os.pread(f.fileno(), 4, 4096) == b'here'
                # Times have nanoseconds.
                def changed(act):
                    before = os.stat('map').st_ctime_ns
                    time.sleep(0.02)
                    act()
                    return os.stat('map').st_ctime_ns != before
                assert not changed(lambda: os.close(os.open('map', os.O_RDWR)))
                descriptors = []
                assert not changed(lambda: descriptors.append(os.open('map', os.O_RDWR)))
                os.close(descriptors[0])
                assert changed(lambda: subprocess.run(['touch', '-a', 'map'], check=True))
                os.utime('map')
                assert os.stat('map').st_atime_ns == os.stat('map').st_mtime_ns, 'both at one time'
                os.utime('map', ns=(1_000_000_001, 2_000_000_003))
                status = os.stat('map')
                assert (status.st_atime_ns, status.st_mtime_ns) == (1_000_000_001, 2_000_000_003)
                # A file is as old as its making, whatever its times say. (Kernels before 6.6 do not ask.)
                born = subprocess.run(['stat', '-c', '%W', 'map'], capture_output=True, text=True, check=True).stdout
                assert tuple(map(int, os.uname().release.split('.')[:2])) < (6, 6) or abs(int(born) - time.time()) < 600
                # Locks between processes.
                f = open('locked', 'w')
                fcntl.flock(f, fcntl.LOCK_EX)
                assert subprocess.run(['flock', '-n', 'locked', 'true']).returncode == 1
                fcntl.flock(f, fcntl.LOCK_UN)
                fcntl.lockf(f, fcntl.LOCK_EX, 10)
                child = subprocess.run(['python3', '-c', '''
                import fcntl
                f = open('locked', 'r+')
                fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 20)
                try: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 5)
                except OSError: raise SystemExit(7)
                '''])
                assert child.returncode == 7, child
                # A program that runs cannot be written.
                os.system('cp /bin/sleep sleep && chmod +x sleep')
                child = subprocess.Popen(['./sleep', '60'])
                try: fails('ETXTBSY', lambda: open('sleep', 'r+'))
                finally: child.kill(); child.wait()
                fails('ENAMETOOLONG', lambda: open('n' * 256, 'w'))
                os.symlink('loop', 'loop')
                fails('ELOOP', lambda: open('loop'))
                """)
        }
    }

    /// Also for a file that another program examines during its close.
    @Test func changeUpdatesTheTimes() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.python(
                """
                import random, time
                coarse = 5  # CLOCK_REALTIME_COARSE
                def change(name):
                    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR))
                    made = os.stat(name).st_ctime_ns
                    # The clock of the files' times has gone on.
                    while time.clock_gettime_ns(coarse) <= made: time.sleep(0.001)
                    file = os.open(name, os.O_RDWR)
                    os.ftruncate(file, 123)
                    os.close(file)
                    # About as long as it may take till the close is noted.
                    end = time.monotonic() + random.random() * 0.01
                    while time.monotonic() < end: pass
                    for _ in range(20):
                        found = os.stat(name)
                        assert found.st_size == 123 and found.st_ctime_ns > made, (name, found.st_size, found.st_ctime_ns, made)
                        end = time.monotonic() + random.random() * 0.0003
                        while time.monotonic() < end: pass
                children = []
                for process in range(4):
                    child = os.fork()
                    if child == 0:
                        random.seed(process)
                        try:
                            for n in range(200): change(f'{process}-{n}')
                        except BaseException as error:
                            print(error, file=sys.stderr)
                            os._exit(1)
                        os._exit(0)
                    children.append(child)
                assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
                """)
        }
    }

    @Test("O_TMPFILE: a file without a name, which may get one", arguments: [[], ["--no-passthrough"]])
    func unnamedFilesWork(_ options: [String]) async throws {
        try await World.run { world in
            let a = try world.device("a")
            try await a.mount(options)
            let b = try await world.mounted("b")
            try await a.shell("mkdir d")
            try await a.python(
                """
                import errno
                # With it Python calls linkat(2), which follows the link in /proc.
                here = os.open('.', os.O_RDONLY)
                one = os.open('d', os.O_TMPFILE | os.O_RDWR, 0o640)
                os.write(one, b'text')
                found = os.fstat(one)
                assert (found.st_size, found.st_nlink, found.st_mode & 0o777) == (4, 0, 0o640), found
                assert os.listdir('d') == []
                os.fchmod(one, 0o600)
                os.setxattr(one, 'user.mine', b'kept')
                os.utime(one, ns=(7, 1_500_000_000_000_000_007))
                os.link(f'/proc/self/fd/{one}', 'd/named', dst_dir_fd=here)
                assert os.pread(one, 9, 0) == b'text'
                found, named = os.fstat(one), os.stat('d/named')
                assert found.st_ino == named.st_ino and named.st_nlink == 1 and named.st_mode & 0o777 == 0o600
                assert named.st_mtime_ns == 1_500_000_000_000_000_007, named
                os.pwrite(one, b' and more\\n', 4)
                os.fsync(one)
                os.close(one)
                assert open('d/named').read() == 'text and more\\n'
                # One that may not get a name, and one that does not get it.
                for flags, name in [(os.O_EXCL, 'd/new'), (0, 'd/named')]:
                    other = os.open('d', os.O_TMPFILE | os.O_WRONLY | flags)
                    os.write(other, bytes(100_000))
                    try:
                        os.link(f'/proc/self/fd/{other}', name, dst_dir_fd=here)
                        assert False
                    except OSError as error:
                        assert error.errno == (errno.ENOENT if flags else errno.EEXIST), error
                    os.close(other)
                """)
            try await world.settle(a, b)
            #expect(try await b.shell("cat d/named; ls d; stat -c %a d/named") == "text and more\nnamed\n600")
            for device in [a, b] { #expect(try await device.shell("getfattr --only-values -n user.mine d/named") == "kept") }
            let contents = "find '\(a.containerState)/content' -type f -size 100000c | wc -l"
            try await world.eventually("they are removed") { try await world.shell(contents) == "0" }
            // Nor a file whose daemon dies.
            let holding = "exec python3 -c 'import os, signal; f = os.open(\".\", os.O_TMPFILE | os.O_RDWR);"
                + " os.write(f, bytes(100_000)); print(\"open\", flush=True); signal.pause()'"
            let holder = try a.start(holding)
            try await world.eventually("it is open") { holder.outputSoFar == "open\n" }
            #expect(try await world.shell(contents) == "1")
            let doctor = try await a.ubiquity("doctor", "", options: ["--check"])
            #expect(doctor.status == 0, "\(doctor)")
            try await a.kill()
            holder.signal(15)
            try await holder.finish()
            try await a.mount(options)
            #expect(try await world.shell(contents) == "0")
            // Nor a file that is open when the mount ends.
            let last = try a.start(holding)
            try await world.eventually("it is open") { last.outputSoFar == "open\n" }
            try await a.unmount("--lazy")
            #expect(try await world.shell(contents) == "1")
            last.signal(15)
            try await last.finish()
            try await world.eventually("the mount has ended") { a.processID == nil }
            #expect(try await world.shell(contents) == "0")
        }
    }

    /// Attribute namespaces and permissions as on ext4.
    @Test(.enabled(if: getuid() == 0, "another user takes root")) func attributeNamespacesBehaveAsOnExt4() async throws {
        try await World.run { world in
            let a = try world.device("a")
            try await a.mount(["-o", "allow_other"])
            try await a.shell("chmod 755 .; echo text > f; chmod 666 f; setfattr -n trusted.q -v 1 f; setfattr -n user.q -v 2 f")
            try await a.python(
                """
                import errno
                def code(call):
                    try:
                        call()
                        return 0
                    except OSError as error:
                        return error.errno
                for name, expected in [('foo.bar', errno.EOPNOTSUPP), ('user', errno.EOPNOTSUPP), ('user.', errno.EINVAL)]:
                    assert code(lambda: os.setxattr('f', name, b'1')) == expected, name
                both = os.XATTR_CREATE | os.XATTR_REPLACE
                assert code(lambda: os.setxattr('f', 'user.q', b'1', both)) == errno.EEXIST
                assert code(lambda: os.setxattr('f', 'user.none', b'1', both)) == errno.ENODATA
                assert 'trusted.q' in os.listxattr('f')
                file = os.open('f', os.O_RDONLY)
                os.setresuid(65534, 65534, 65534)
                assert 'trusted.q' not in os.listxattr(file) and 'user.q' in os.listxattr(file)
                """)
        }
    }

    @Test func holesAreKeptOnOtherDevices() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.python(
                """
                with open('sparse', 'wb') as f:
                    for n in range(100):
                        f.seek(n * 200_000)
                        f.write(os.urandom(5000))
                    f.truncate(30_000_000)
                """)
            try await world.settle(a, b)
            try await b.shell("cmp sparse '\(a.mountPoint)/sparse'")
            let blocks = try await b.shell("stat -c %b sparse")
            #expect(try #require(Int(blocks)) * 512 < 6_000_000, "\(blocks)")
        }
    }

    /// fallocate(2), seen by reads, a mapping and stat(2) alike.
    @Test(arguments: [[], ["--no-passthrough"]]) func fallocateBehavesAsOnADisk(options: [String]) async throws {
        try await World.run { world in
            let (a, b) = (try world.device("a"), try await world.mounted("b"))
            try await a.mount(options)
            try await a.python(Self.ranges)
            try await world.settle(a, b)
            try await b.shell("cmp ranges '\(a.mountPoint)/ranges'")
            // 2 MiB are no holes.
            let blocks = try await b.shell("stat -c %b ranges")
            #expect(try #require(Int(blocks)) * 512 < 3 << 20, "\(blocks)")
        }
    }

    private static let ranges = """
        import mmap
        keep, punch, collapse, zero, insert = 1, 2, 8, 16, 32
        mega = 1 << 20
        file = os.open('ranges', os.O_RDWR | os.O_CREAT)
        assert os.write(file, b'x' * 4 * mega) == 4 * mega
        view = mmap.mmap(file, 4 * mega)
        libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        def fallocate(mode, offset, length):
            if libc.fallocate(file, mode, offset, length) != 0: raise OSError(ctypes.get_errno(), 'fallocate')
        def holds(offset, text):
            read, mapped = os.pread(file, len(text), offset), view[offset:offset + len(text)]
            assert read == mapped == text, (offset, read, mapped)
        def room(size):
            here, named = os.fstat(file), os.stat('ranges')
            assert here.st_size == named.st_size == size, (here, named)
            # What is on its way to the disk takes a little more there.
            assert abs(here.st_blocks - named.st_blocks) < 128, (here, named)
            return named.st_blocks * 512
        holds(0, b'x')
        full = room(4 * mega)
        fallocate(punch | keep, mega, 2 * mega)
        holds(mega - 2, b'xx\\0\\0'); holds(3 * mega - 2, b'\\0\\0xx')
        assert room(4 * mega) <= full - mega
        # Not at the ends of pages, and beside what was stored.
        view[8193:8197] = b'mine'
        fallocate(zero, 8197, 8192)
        holds(8192, b'xmine\\0\\0'); holds(16387, b'\\0\\0xx')
        fallocate(zero | keep, 4 * mega - 4096, mega)
        holds(4 * mega - 4098, b'xx\\0\\0')
        before = room(4 * mega)
        fallocate(keep, 8 * mega, 2 * mega)
        assert room(4 * mega) >= before + mega
        fallocate(0, 4 * mega, 2 * mega)
        room(6 * mega)
        fallocate(zero, 6 * mega, mega)
        room(7 * mega)
        assert os.pread(file, 9, 4 * mega) == bytes(9) and os.pread(file, 9, 7 * mega - 2) == bytes(2)
        for mode in (collapse, insert): fails('EOPNOTSUPP', lambda: fallocate(mode, 0, 4096))
        holds(8192, b'xmine\\0\\0')
        room(7 * mega)
        """

    /// The reference is the kernel's own answer beside the mount.
    @Test(.enabled(if: getuid() == 0, "another user takes root")) func permissionsOfOtherUsersAreChecked() async throws {
        try await World.run { world in
            let a = try world.device("a"), native = world.folder + "/native"
            try await a.mount(["-o", "allow_other"])
            try await world.shell("mkdir '\(native)'")
            var told = [String]()
            for folder in [native, a.mountPoint] {
                try await world.shell(
                    """
                    cd '\(folder)'; umask 022; chmod 755 .; mkdir -m 1777 sticky; echo theirs > sticky/f; mkdir sticky/d
                    for n in f open secret; do echo $n > $n; done; chmod 666 open; chmod 600 secret
                    mkdir -m 700 closed; echo x > closed/x; mkdir shared; chgrp 1 shared; chmod 2777 shared
                    """)
                told.append(try await Tools.python("os.chdir('\(folder)')\n\(Self.others)", in: world))
            }
            expectSame(told, "the rights of others")
            for line in ["unlink EPERM", "read EACCES", "user.ubiquity.evict of f EACCES", "d 42775 65534 1"] {
                #expect(told[0].split(separator: "\n").contains { $0 == line }, "\(line) in \(told[0])")
            }
        }
    }

    private static let others = """
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        os.umask(0)
        def tell(what, call):
            try: print(what, call())
            except OSError as error: print(what, errno.errorcode[error.errno])
        def make(name, mode): os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        def look(name):
            found = os.lstat('shared/' + name)
            print(name, f'{found.st_mode:o} {found.st_uid} {found.st_gid}')
        make('sticky/own', 0o666)
        tell('unlink', lambda: os.unlink('sticky/f'))
        tell('rename', lambda: os.rename('sticky/f', 'sticky/g'))
        tell('replace', lambda: os.rename('sticky/own', 'sticky/f'))
        tell('exchange', lambda: renameat2('sticky/own', 'sticky/f', 2))
        tell('rmdir', lambda: os.rmdir('sticky/d'))
        tell('attribute', lambda: os.setxattr('sticky', 'user.x', b'1'))
        tell('rename own', lambda: os.rename('sticky/own', 'sticky/mine'))
        tell('read', lambda: open('secret').read())
        tell('read attribute', lambda: os.getxattr('secret', 'user.ubiquity.evict'))
        tell('list', lambda: os.listdir('closed'))
        tell('look', lambda: os.stat('closed/x'))
        tell('write', lambda: open('f', 'r+'))
        tell('truncate', lambda: os.truncate('f', 0))
        tell('make', lambda: make('new', 0o666))
        tell('remove', lambda: os.unlink('f'))
        tell('link', lambda: os.link('f', 'sticky/link'))
        for name in ('f', 'open'):
            tell('chmod', lambda: os.chmod(name, 0o777))
            tell('chown', lambda: os.chown(name, 65534, -1))
            tell('old', lambda: os.utime(name, (1, 1)))
            tell('now', lambda: os.utime(name))
        for name in ('user.x', 'user.ubiquity.evict', 'user.ubiquity.pinned', 'trusted.x'):
            for file in ('f', 'secret', 'closed'):
                tell(f'{name} of {file}', lambda: os.setxattr(file, name, b'1'))
                tell(f'{name} of {file} again', lambda: os.removexattr(file, name))
        # In a folder with set-group-id, of a group that is not theirs.
        make('shared/f', 0o2775)
        os.mkdir('shared/d', 0o775)
        os.mkfifo('shared/pipe', 0o2775)
        os.symlink('f', 'shared/link')
        make('shared/d/f', 0o2640)
        for name in ('f', 'd', 'pipe', 'link', 'd/f'): look(name)
        found = os.fstat(os.open('shared', os.O_TMPFILE | os.O_RDWR, 0o2775))
        print('unnamed', f'{found.st_mode:o} {found.st_gid}')
        for name in ('f', 'd'):
            os.chmod('shared/' + name, 0o2775)
            look(name)
        tell('foreign group', lambda: os.chown('shared/f', -1, 2))
        tell('own group', lambda: os.chown('shared/f', -1, 65534))
        look('f')
        """

    /// Bytes, as df(1) prints them.
    private func room(_ device: Device) async throws -> (size: Int, used: Int) {
        let told = try await device.world.shell("df -B1 --output=size,used '\(device.mountPoint)'").split(separator: "\n")
        let numbers = try #require(told.last).split(separator: " ").compactMap { Int($0) }
        try #require(numbers.count == 2, "\(told)")
        return (numbers[0], numbers[1])
    }

    /// The cloud's last figures, even if it has not answered since the mount.
    @Test func dfShowsTheAccount() async throws {
        try await World.run { world in
            try await world.shell("cd \"$HOME\"; mkdir -p .config/ubiquity; echo 'quota = 100M' > .config/ubiquity/config")
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            for device in [a, b] {
                try await world.eventually("it is the account's size") { try await room(device).size <= 100 << 20 }
            }
            try await a.shell("head -c 31000000 /dev/urandom > f")
            try await world.settle(a, b)
            for device in [a, b] {
                try await world.eventually("the used space is known") { try await room(device).used >= 30_000_000 }
            }
            let size = try await room(b).size
            #expect(size > 99 << 20 && size <= 100 << 20)
            try await b.unmount()
            let cloud = try #require(world.cloudProcess)
            kill(cloud, SIGSTOP)
            defer { kill(cloud, SIGCONT) }
            try await b.mount()
            #expect(try await room(b).size == size)
            kill(cloud, SIGCONT)
        }
    }

    /// Like a program that is replaced while it runs, and starts itself again.
    @Test(arguments: [[], ["--no-passthrough"]]) func replacedOpenFilesCanBeOpenedAgain(options: [String]) async throws {
        try await World.run { world in
            let a = try world.device("a")
            try await a.mount(options)
            try await a.python(
                """
                for n, text in (('f', b'old'), ('new', b'newer')):
                    with open(n, 'wb') as file: file.write(text)
                fd = os.open('f', os.O_RDWR)
                os.rename('new', 'f')
                again = os.open(f'/proc/self/fd/{fd}', os.O_RDWR)
                assert os.pread(again, 9, 0) == b'old' and os.fstat(again).st_nlink == 0
                os.write(again, b'O')
                assert os.pread(fd, 9, 0) == b'Old' and open('f', 'rb').read() == b'newer'
                """)
        }
    }

    /// It has its earlier attributes, and is a file of its own.
    @Test func linkedBackupOfAReplacedFileHasItsOwnAttributes() async throws {
        try await World.run { world in
            let a = try world.device("a")
            try await a.mount()
            try await a.python(
                """
                for n, text in (('doc', b'old'), ('new', b'newer')):
                    with open(n, 'wb') as file: file.write(text)
                os.setxattr('doc', 'user.old', b'1')
                os.link('doc', 'bak')
                os.rename('new', 'doc')
                os.setxattr('bak', 'user.note', b'x')
                assert os.getxattr('bak', 'user.note') == b'x'
                assert os.getxattr('bak', 'user.old') == b'1'
                os.removexattr('bak', 'user.old')
                assert 'user.old' not in os.listxattr('bak')
                assert open('bak', 'rb').read() == b'old'
                """)
        }
    }

    /// Also if its time was set without opening it.
    @Test(arguments: [[], ["--no-passthrough"]]) func openingChangesNoTimes(options: [String]) async throws {
        try await World.run { world in
            let a = try world.device("a")
            try await a.mount(options)
            try await a.python(
                """
                with open('f', 'wb') as file: file.write(b'text')
                os.utime('f', ns=(10**18, 10**18))
                before = os.stat('f')
                fd = os.open('f', os.O_RDWR)
                for now in (os.fstat(fd), os.stat('f')):
                    assert (now.st_mtime_ns, now.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)
                os.write(fd, b'T')
                assert os.fstat(fd).st_ctime_ns > before.st_ctime_ns
                os.close(fd)
                assert os.stat('f').st_ctime_ns > before.st_ctime_ns
                """)
        }
    }

    /// Links in /proc lead to the inode, with every right that a name would give.
    @Test(arguments: [[], ["--no-passthrough"]]) func removedOpenFilesCanBeOpenedAgain(options: [String]) async throws {
        try await World.run { world in
            let a = try world.device("a")
            try await a.mount(options)
            try await a.python(
                """
                fd = os.open('f', os.O_RDONLY | os.O_CREAT)
                os.unlink('f')
                os.setxattr(fd, 'user.k', b'v')
                assert os.getxattr(fd, 'user.k') == b'v'
                again = os.open(f'/proc/self/fd/{fd}', os.O_RDWR)
                os.write(again, b'hello')
                assert os.pread(fd, 9, 0) == b'hello' and os.fstat(fd).st_size == 5 and os.fstat(fd).st_nlink == 0
                os.close(fd)
                os.truncate(f'/proc/self/fd/{again}', 2)
                assert os.pread(again, 9, 0) == b'he'
                emptied = os.open(f'/proc/self/fd/{again}', os.O_WRONLY | os.O_TRUNC)
                assert os.pread(again, 9, 0) == b''
                os.close(emptied); os.close(again)
                assert os.listdir('.') == []
                """)
            try await a.unmount()
            #expect(try await world.shell("find '\(a.containerState)/content' -type f -size +0") == "")
        }
    }
}
