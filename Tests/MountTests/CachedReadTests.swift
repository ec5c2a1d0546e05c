import Glibc
import Testing

/// Small files that are read and examined repeatedly, which the kernel serves from its pages. Writes without the daemon
/// happen in between.
@Suite struct CachedReadTests {
    @Test(arguments: [1, 2, 3]) func readersSeeTheLastWrite(seed: Int) async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.python("seed, steps, evict = \(seed), 4000, []\n" + Self.program)
            try await world.settle(a, b)
            // On the second device the files begin as placeholders, which are downloaded and evicted.
            try await b.python(
                "seed, steps, evict = \(seed + 100), 300, ['\(World.program)', 'evict']\n" + Self.program)
            try await world.settle(a, b)
            let (here, there) = (try await Tools.picture(of: a.mountPoint, in: world),
                try await Tools.picture(of: b.mountPoint, in: world))
            #expect(here == there)
        }
    }

    /// Random opens, reads, stats and writes of four files, through several handles and mappings at a time, against a
    /// model.
    private static let program = """
        import mmap, random, subprocess
        r = random.Random(seed)
        now, handles, maps, step = {}, [], [], -1

        class Model:
            def __init__(self, data=b''): self.data = bytearray(data)
            def cut(self, end):
                self.data = self.data[:end] + bytes(max(0, end - len(self.data)))
            def put(self, f):
                at, text = r.randrange(len(self.data) + 100), r.randbytes(r.choice([1, 100, 4096, 9000]))
                self.cut(max(at, len(self.data)))
                os.pwrite(f, text, at)
                self.data[at:at + len(text)] = text
            def check(self, f):
                assert os.fstat(f).st_size == len(self.data), f'step {step}: size {os.fstat(f).st_size}'
                got = b''
                while piece := os.pread(f, 1 << 17, len(got)): got += piece
                assert got == self.data, f'step {step}: other bytes'

        def make(name):
            f = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            now[name] = Model(); now[name].put(f); os.close(f)

        for n in range(4):
            if not os.path.exists(f'r{n}'): make(f'r{n}')
            else: now[f'r{n}'] = Model(open(f'r{n}', 'rb').read())
        choices = ['read'] * 40 + ['look', 'write', 'open', 'open', 'use', 'use', 'use', 'close', 'close', 'cut', 'empty',
                                   'replace', 'map', 'store', 'remove', 'evict']
        for step in range(steps):
            name, what = r.choice(list(now)), r.choice(choices)
            model = now[name]
            if what == 'look': assert os.stat(name).st_size == len(model.data), f'step {step}'
            elif what in ('read', 'write'):
                f = os.open(name, os.O_RDONLY if what == 'read' else os.O_RDWR)
                if what == 'write': model.put(f)
                model.check(f); os.close(f)
            elif what == 'open' and len(handles) < 6:
                writes = r.random() < 0.4
                handles.append((os.open(name, os.O_RDWR if writes else os.O_RDONLY), model, writes))
            elif what == 'use' and handles:
                f, model, writes = r.choice(handles)
                if writes: model.put(f)
                model.check(f)
            elif what == 'close' and handles: os.close(handles.pop(r.randrange(len(handles)))[0])
            elif what == 'cut':
                end = r.randrange(150000); os.truncate(name, end); model.cut(end)
            elif what == 'empty':
                f = os.open(name, os.O_WRONLY | os.O_TRUNC); model.cut(0); model.put(f); os.close(f)
            elif what == 'replace':
                make('new'); os.rename('new', name); now[name] = now.pop('new')
            elif what == 'map' and len(model.data) >= 4096:
                f = os.open(name, os.O_RDWR); maps.append((mmap.mmap(f, 4096), model)); os.close(f)
            elif what == 'store' and maps:
                view, model = maps.pop()
                if len(model.data) >= 4096: view[100:150] = model.data[100:150] = r.randbytes(50)
                view.close()
            elif what == 'remove': os.unlink(name); make(name)
            elif what == 'evict' and evict: subprocess.run([*evict, name], capture_output=True)
        for f, model, _ in handles: model.check(f); os.close(f)
        for view, _ in maps: view.close()
        for name, model in now.items():
            f = os.open(name, os.O_RDONLY); model.check(f); os.close(f)
        """
}
