import Testing

/// The usual ways of programs to save: each makes one new version of the same item, and uploads nothing else.
@Suite struct EditorTests {
    /// The commands of a program that appends the line "added" to `$f`.
    struct Saving: Sendable, CustomTestStringConvertible {
        var name: String
        var script: String
        /// Files that the program leaves beside the document, which stay on this device.
        var left = ""
        /// Whether several programs do it: the work of one may be uploaded before the next one's.
        var isInSteps = false
        var testDescription: String { name }

        static func vim(_ options: String, left: String = "") -> Saving {
            Saving(
                name: "vim \(options)",
                script: "vim -N -u NONE -i NONE -es -c 'set backupskip= \(options)' -c 'normal Goadded' -c wq $f", left: left)
        }
    }

    private static let vim: [Saving] = [
        .vim("backupcopy=yes"), .vim("backupcopy=no"), .vim("backupcopy=auto"),
        .vim("backupcopy=no backup", left: "f.txt~"), .vim("backupcopy=yes backup", left: "f.txt~"),
        .vim("backupcopy=auto undofile", left: ".f.txt.un~"),
    ]

    private static let tools: [Saving] = [
        Saving(name: "sed -i", script: "sed -i '$ a added' $f"),
        Saving(name: "sed -i with a backup", script: "sed -i~ '$ a added' $f", left: "f.txt~"),
        Saving(name: "GLib", script: "(cat $f; echo added) > $o/g; gio save $f < $o/g"),
        Saving(name: "GLib with a backup", script: "(cat $f; echo added) > $o/g; gio save -b $f < $o/g", left: "f.txt~"),
        Saving(name: "rsync", script: "(cat $f; echo added) > $o/f.txt; rsync $o/f.txt $f"),
        Saving(
            name: "rsync with a backup", script: "(cat $f; echo added) > $o/f.txt; rsync -b $o/f.txt $f",
            left: "f.txt~"),
        Saving(name: "cp", script: "(cat $f; echo added) > $o/f; cp $o/f $f"),
        Saving(name: "cp in place of it", script: "(cat $f; echo added) > $o/f; cp --remove-destination $o/f $f"),
        Saving(name: "mv from elsewhere", script: "(cat $f; echo added) > $o/f; mv $o/f $f"),
        Saving(name: "mv", script: "(cat $f; echo added) > $f.new; mv $f.new $f", isInSteps: true),
        Saving(
            name: "backup, anew, delete the backup", script: "mv $f $f.b; (cat $f.b; echo added) > $f; rm $f.b",
            isInSteps: true),
    ]

    private static let others: [Saving] = [
        Saving(
            name: "emacs",
            script: """
                emacs -Q --batch $f --eval '(progn (setq make-backup-files t backup-inhibited nil) (auto-save-mode 1)
                (goto-char (point-max)) (insert "added\\n") (do-auto-save)
                (or (file-exists-p buffer-auto-save-file-name) (kill-emacs 3)) (save-buffer))'
                """, left: "f.txt~"),
        Saving(
            name: "Python",
            script: """
                python3 -c 'import os, sys, tempfile
                f = sys.argv[1]
                with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(f), delete=False) as new:
                    new.write(open(f).read() + "added\\n"); new.flush(); os.fsync(new.fileno())
                os.replace(new.name, f)' $f
                """),
        Saving(
            name: "an exchange",
            script: """
                python3 -c 'import ctypes, os, sys, tempfile
                f = sys.argv[1]
                with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(f), delete=False) as new:
                    new.write(open(f).read() + "added\\n"); new.flush(); os.fsync(new.fileno())
                libc = ctypes.CDLL(None, use_errno=True)
                assert libc.renameat2(-100, new.name.encode(), -100, f.encode(), 2) == 0, ctypes.get_errno()
                os.unlink(new.name)' $f
                """),
    ]

    @Test(arguments: [vim, tools, others]) func saveMakesOneVersion(_ savings: [Saving]) async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            for (number, saving) in savings.enumerated() {
                try await check(saving, in: "Documents/d\(number)", a, b)
            }
        }
    }

    private func check(_ saving: Saving, in folder: String, _ a: Device, _ b: Device) async throws {
        let world = a.world
        let file = "\(folder)/f.txt"
        try await a.shell("mkdir -p \(folder); printf 'first\\n' > \(file); setfattr -n user.k -v v \(file)")
        try await world.settle(a, b)
        let item = try await a.attribute("item-id", of: file)
        let before = try await world.cloudCounts(of: item)
        // Until now the saving device had a placeholder.
        try await b.shell("f='\(b.mountPoint)/\(file)'; o='\(world.folder)/output'; \(saving.script)")
        try await world.settle(b, a)
        let after = try await world.cloudCounts(of: item)
        #expect(after[2] == before[2] + 1, "\(saving.name): \(before[2]) versions became \(after[2])")
        if !saving.isInSteps {
            #expect(Array(after[..<2]) == [before[0], before[1] + 1], "\(saving.name): \(before) became \(after)")
        }
        for device in [a, b] {
            #expect(try await device.attribute("item-id", of: file) == item, "\(saving.name)")
            #expect(try await device.attribute("conflict-count", of: file) == "0", "\(saving.name)")
            let text = try await device.shell("cat \(file); getfattr --only-values -n user.k \(file)")
            #expect(text == "first\nadded\nv", "\(saving.name)")
        }
        #expect(try await a.shell("ls -A \(folder)") == "f.txt", "\(saving.name)")
        let left = try await b.shell("ls -A \(folder) | grep -vx f.txt || :")
        #expect(left == saving.left, "\(saving.name)")
        if !left.isEmpty {
            #expect(try await b.attribute("is-excluded-from-sync", of: "\(folder)/\(left)") == "1", "\(saving.name)")
        }
    }

    /// Between its automatic save and the user's save.
    @Test func emacsAutosaveFilesAreNotUploaded() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo first > f.txt")
            try await world.settle(a, b)
            let (item, before) = (try await a.attribute("item-id", of: "f.txt"), try await world.cloudCounts())
            let emacs = try b.start(
                """
                exec emacs -Q --batch f.txt --eval '(progn (auto-save-mode 1) (goto-char (point-max)) (insert "added\\n")
                (do-auto-save) (message "saved")
                (while (not (file-exists-p "\(world.folder)/go")) (sleep-for 0.05)) (save-buffer))' 2>&1
                """)
            try await world.eventually("it has saved") { emacs.outputSoFar.contains("saved\n") }
            #expect(try await b.shell("cat '#f.txt#' f.txt") == "first\nadded\nfirst")
            for name in ["#f.txt#", ".#f.txt"] {
                #expect(try await b.shell("ls -A").split(separator: "\n").contains { $0 == name }, "\(name)")
            }
            #expect(try await b.attribute("is-excluded-from-sync", of: "#f.txt#") == "1")
            // Later changes are uploaded after it.
            try await b.shell("echo other > other")
            try await world.settle(b, a)
            #expect(try await world.cloudCounts() == [before[0] + 1, before[1] + 1])
            #expect(try await a.shell("ls -A; cat f.txt") == "f.txt\nother\nfirst")
            try await world.shell(": > '\(world.folder)/go'")
            let ended = try await emacs.finish()
            #expect(ended.status == 0, "\(ended)")
            try await world.settle(b, a)
            #expect(try await world.cloudCounts() == [before[0] + 1, before[1] + 2])
            #expect(try await a.attribute("item-id", of: "f.txt") == item)
            #expect(try await a.shell("ls -A; cat f.txt") == "f.txt\nother\nfirst\nadded")
            #expect(try await b.shell("ls -A | grep -c '#' || :") == "0")
        }
    }

    /// Emacs relies on the kernel's event: it never checks by itself.
    @Test func emacsShowsARemoteSave() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo first > f.txt")
            try await world.settle(a, b)
            let emacs = try b.start(
                """
                exec emacs -Q --batch f.txt --eval '(progn
                (setq auto-revert-avoid-polling t auto-revert-interval 1000 auto-revert-verbose nil)
                (global-auto-revert-mode 1) (auto-revert-buffers)
                (message (if auto-revert-notify-watch-descriptor "watches" "does not watch"))
                (dolist (text (list "second\n" "first\nthird\n"))
                (while (not (string= (buffer-string) text)) (read-event nil nil 0.1)) (message "shown")))' 2>&1
                """)
            try await world.eventually("it watches") { emacs.outputSoFar == "watches\n" }
            try await a.shell("echo second > f.txt")
            try await world.eventually("it shows it: \(emacs.outputSoFar)") { emacs.outputSoFar == "watches\nshown\n" }
            // By a program that replaces the file.
            try await a.shell("printf 'first\\nthird\\n' > f.new; mv f.new f.txt")
            let ended = try await emacs.finish(within: 30)
            #expect(ended.status == 0 && ended.out == "watches\nshown\nshown\n", "\(ended)")
        }
    }

    @Test func nanoWithABackup() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo line > f.txt; setfattr -n user.k -v v f.txt")
            try await world.settle(a, b)
            let (item, before) = (try await a.attribute("item-id", of: "f.txt"), try await world.cloudCounts())
            try await Tools.type(
                [("f.txt", "typed "), ("typed", "\u{0F}"), ("File Name to Write", "\r"), ("Wrote", "\u{18}")],
                into: ["nano", "-I", "-B", "\(b.mountPoint)/f.txt"], in: world)
            try await world.settle(b, a)
            #expect(try await world.cloudCounts() == [before[0], before[1] + 1])
            #expect(try await a.attribute("item-id", of: "f.txt") == item)
            #expect(try await a.shell("cat f.txt; getfattr --only-values -n user.k f.txt; ls -A") == "typed line\nvf.txt")
            #expect(try await b.shell("ls -A; cat f.txt~") == "f.txt\nf.txt~\nline")
        }
    }

    @Test func perlWithABackup() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo line > f.txt; setfattr -n user.k -v v f.txt")
            try await world.settle(a, b)
            let item = try await a.attribute("item-id", of: "f.txt")
            // Content that is still being downloaded is no backup made by this device.
            try await b.shell("cat f.txt")
            try await b.waitFor("downloading-status", "current", of: "f.txt")
            try await b.shell("perl -pi.bak -e 's/line/more/' f.txt")
            try await world.settle(b, a)
            for device in [a, b] {
                #expect(try await device.attribute("item-id", of: "f.txt") == item)
                #expect(try await device.attribute("item-id", of: "f.txt.bak") != item)
                #expect(try await device.shell("cat f.txt f.txt.bak; stat -c %h *; ls -A") == "more\nline\n1\n1\nf.txt\nf.txt.bak")
            }
            #expect(try await a.shell("getfattr --only-values -n user.k f.txt; cat .versions/f.txt/*") == "vline")
        }
    }

    @Test func gitChecksOutAnotherBranch() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            let git = "git -c user.name=n -c user.email=n@example.org --git-dir='\(world.folder)/repository' --work-tree=w"
            try await a.shell(
                """
                mkdir w; for n in $(seq 20); do echo one > w/$n; done
                \(git) init -q -b main; \(git) add -A; \(git) commit -qm one
                \(git) checkout -qb other; for n in $(seq 10); do echo two > w/$n; done; rm w/20
                \(git) add -A; \(git) commit -qm two; \(git) checkout -q main
                for n in $(seq 10); do setfattr -n user.k -v $n w/$n; done
                """)
            try await world.settle(a, b)
            let ids = "for n in $(seq 19); do getfattr --only-values -n user.ubiquity.item-id w/$n; echo; done"
            let (items, before) = (try await a.shell(ids), try await world.cloudCounts())
            try await a.shell("\(git) checkout -q other")
            try await world.settle(a, b)
            #expect(try await world.cloudCounts() == [before[0], before[1] + 10])
            for device in [a, b] {
                #expect(try await device.shell(ids) == items)
                #expect(try await device.shell("cat w/1 w/11; getfattr --only-values -n user.k w/7") == "two\none\n7")
                #expect(try await device.shell("ls w | wc -l") == "19")
            }
        }
    }

    /// Both devices save while one is offline, each with one program.
    @Test(arguments: [vim[1], others[1]]) func concurrentSavesMakeOneConflict(_ saving: Saving) async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo first > f.txt; setfattr -n user.k -v v f.txt")
            try await world.settle(a, b)
            try await b.shell("cat f.txt")
            let (item, before) = (try await a.attribute("item-id", of: "f.txt"), try await world.cloudCounts())
            try await b.ubiquity("offline", "")
            let edit = { (device: Device) in "f='\(device.mountPoint)/f.txt'; o='\(world.folder)/output'; \(saving.script)" }
            try await a.shell("echo from a >> f.txt; \(edit(a))")
            try await a.wait("--uploaded")
            try await b.shell("echo from b >> f.txt; \(edit(b))")
            try await b.ubiquity("online", "")
            try await world.settle(b, a)
            let after = try await world.cloudCounts()
            #expect(after[0] == before[0])
            for device in [a, b] {
                #expect(try await device.shell("cat f.txt; ls -A") == "first\nfrom b\nadded\nf.txt", "\(device.name)")
                #expect(try await device.attribute("item-id", of: "f.txt") == item)
                #expect(try await device.attribute("conflict-count", of: "f.txt") == "1")
                #expect(try await device.shell("getfattr --only-values -n user.k f.txt") == "v")
            }
        }
    }

    // MARK: Ignore files

    @Test func ignoreFilesExcludeItems() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell(
                """
                mkdir p; echo early > p/early.log
                printf '*.log\\nbuild/\\n!keep.log\\n' > p/.ubiquityignore
                echo x > p/a.log; echo x > p/keep.log; mkdir p/build; echo x > p/build/x; echo x > p/build/y.log
                """)
            try await world.settle(a, b)
            #expect(try await b.shell("cd p; find . -type f | sort") == "./.ubiquityignore\n./early.log\n./keep.log")
            #expect(try await a.attribute("is-excluded-from-sync", of: "p/build/x") == "1")
            // The other device has the rules by now, and remote changes do not disturb them.
            try await b.waitFor("downloading-status", "current", of: "p/.ubiquityignore")
            try await b.shell("mkdir p/build; echo b > p/build/x; echo b > p/a.log; echo more > p/new")
            try await world.settle(b, a)
            #expect(try await a.shell("cat p/build/x p/a.log p/new; ls p/build") == "x\nx\nmore\nx\ny.log")
            #expect(try await b.shell("cat p/build/x p/a.log; ls p/build") == "b\nb\nx")
            // Files that are no longer ignored are uploaded.
            try await a.shell("rm -r p/build; echo '*.tmp' > p/.ubiquityignore; touch p/z.tmp")
            try await world.settle(a, b)
            let seen = try await b.shell("cat p/a.log; ls -A p")
            #expect(seen == "b\n.ubiquityignore\na.log\nbuild\nearly.log\nkeep.log\nnew")
            // Saving it anew, in whatever way, ends nothing; nor does a removal of everything on another device.
            try await a.shell(
                """
                mkdir s; echo '*.o' > s/.ubiquityignore; echo x > s/1.o; echo x > s/c
                python3 -c "import os, time; os.unlink('s/.ubiquityignore'); open('s/2.o', 'w'); time.sleep(0.3)
                open('s/.ubiquityignore', 'w').write('*.o\\n')"
                python3 -c "import time; f = open('s/.ubiquityignore', 'w'); time.sleep(0.3); open('s/3.o', 'w'); f.write('*.o\\n')"
                mv s/.ubiquityignore s/i; touch s/4.o; echo '*.o' > s/.ubiquityignore; rm s/i; touch s/5.o
                """)
            try await world.settle(a, b)
            #expect(try await b.shell("ls -A s") == ".ubiquityignore\nc")
            try await b.shell("rm -r s")
            try await world.settle(b, a)
            #expect(try await a.shell("touch s/6.o; ls s; ls") == "1.o\n2.o\n3.o\n4.o\n5.o\n6.o\np\ns")
            #expect(try await b.shell("ls") == "p")
            // No new file is necessary for that, and `wait --uploaded` includes these files.
            try await a.shell("mkdir q; echo '*.log' > q/.ubiquityignore; echo x > q/x.log; rm q/.ubiquityignore")
            try await a.wait("--uploaded")
            #expect(try await a.attribute("is-uploaded", of: "q/x.log") == "1")
        }
    }
}
