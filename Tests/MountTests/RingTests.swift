import Foundation
import Glibc
import Testing
import UbiquityControl

/// The kernel's requests by io_uring, and the same by the device if io_uring is off.
@Suite struct RingTests {
    /// More than the threads that serve a core's requests from arrival to answer.
    private static let readers = 100
    /// Not more than `status` lists.
    private static let burst = 90

    @Test func statusShowsStateAndReason() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            let usual = try await a.status().rings
            #expect(usual?.isActive == true || usual?.reason?.isEmpty == false)
            #expect(try await world.ubiquity("status", "--state", a.state).text.contains("io_uring"))
            try await a.unmount()
            try await a.mount(environment: ["UBIQUITY_IO_URING": "off"])
            let status = try #require(try await a.status().rings)
            #expect(!status.isActive && status.reason?.contains("UBIQUITY_IO_URING") == true)
            try await a.shell("echo text > f; mv f g; cat g; rm g")
        }
    }

    /// With the cloud stopped, more programs wait for contents than there are threads: everything else continues. When
    /// the cloud is back, each program gets the right content.
    @Test(arguments: ["on", "off"]) func manyWaitingProgramsBlockNobody(rings: String) async throws {
        try await World.run { world in
            let (a, b) = (try world.device("a"), try world.device("b"))
            for device in [a, b] { try await device.mount(environment: ["UBIQUITY_IO_URING": rings]) }
            try await a.python(
                "for n in range(\(Self.readers)): open(f'f{n}', 'wb').write(os.urandom(150000))")
            try await world.settle(a, b)
            let cloud = try #require(world.cloudProcess)
            kill(cloud, SIGSTOP)
            defer { kill(cloud, SIGCONT) }
            // One process with threads: starting as many processes took a busy machine longer than the 15 s after which
            // the first of them gets the error that the cloud does not answer.
            let wait = try b.start(
                """
                exec python3 -c '
                import threading
                def read(n):
                    if open(f"f{n}", "rb").read() != open(f"\(a.mountPoint)/f{n}", "rb").read(): print(n)
                threads = [threading.Thread(target=read, args=(n,)) for n in range(\(Self.readers))]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
                '
                """)
            try await world.eventually("all wait") {
                try await b.status().downloads.items >= Self.readers
            }
            let other = try await b.shell(
                "ls | wc -l; stat -c %s f7; df . >df; mkdir d; echo 1 >d/x; mv d/x d/y; sync d/y; cat d/y; rm -r d df; ln f7 l; rm l",
                within: 20)
            #expect(other == "\(Self.readers)\n150000\n1")
            kill(cloud, SIGCONT)
            let outcome = try await wait.finish(within: 60)
            #expect(outcome.status == 0 && outcome.text == "" && outcome.err == "", "\(outcome)")
        }
    }

    /// More concurrent opens than a core has slots, all of them unanswered. The kernel passes a queued request only to
    /// a slot that has answered.
    @Test func burstOfWaitingOpensArrives() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo 1 > f; mkfifo ../go")
            let holder = try a.start("'\(World.program)' coordinate write f -- sh -c 'echo in; read -r line < ../go'")
            try await world.eventually("it is claimed") { holder.outputSoFar == "in\n" }
            let opens = try a.start(
                """
                exec taskset -c 0 python3 -c '
                import threading
                start, texts = threading.Barrier(\(Self.burst)), []
                def read():
                    start.wait()
                    texts.append(open("f").read())
                threads = [threading.Thread(target=read) for _ in range(\(Self.burst))]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
                print(len(texts), set(texts))
                '
                """)
            try await world.eventually("all wait") {
                try await a.status().coordination?.claims.filter { $0.state == "waiting" }.count == Self.burst
            }
            try await a.shell("echo > ../go")
            #expect(try await opens.finish(within: 60).text == "\(Self.burst) {'1\\n'}")
        }
    }

    /// With all cores busy, the threads of the lowest priority still run.
    @Test func busyCoresStarveNobody() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell(
                """
                for n in $(seq $(($(nproc) * 2))); do timeout 90 sh -c 'while :; do :; done' & hogs="$hogs $!"; done
                trap 'kill $hogs' EXIT
                for n in $(seq 300); do echo $n > f$n; mv f$n g$n; rm g$n; done
                """, within: 60)
        }
    }

    /// The mount ends while programs wait: they get an error, and the next mount has everything.
    @Test func waitingProgramsGetAnErrorAtTheEnd() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("for n in $(seq 40); do head -c 150000 /dev/urandom > f$n; done")
            try await world.settle(a, b)
            let cloud = try #require(world.cloudProcess)
            for isKilled in [true, false] {
                kill(cloud, SIGSTOP)
                defer { kill(cloud, SIGCONT) }
                let wait = try b.start("for n in $(seq 40); do cat f$n >/dev/null 2>&1 & done; wait")
                // Not all: on a busy machine the first ones may have reached the network's limit already.
                try await world.eventually("they wait") { try await b.status().downloads.items >= 20 }
                if isKilled { try await b.kill() } else { try await b.unmount("--lazy") }
                try await wait.finish(within: 30)
                kill(cloud, SIGCONT)
                // Programs get the error when the connection ends; the daemon has its state folder a moment longer.
                try await world.eventually("the daemon has ended") { b.processID == nil }
                try await b.mount()
            }
            try await b.shell("for n in $(seq 40); do cmp f$n '\(a.mountPoint)'/f$n; done")
        }
    }

    /// By default a thread of the lowest CPU priority has the lowest disk priority too: its reads and writes, and so a
    /// program's fsync, wait until no other requests exist (mq-deadline: for up to ten seconds).
    @Test func requestThreadsHaveNormalDiskPriority() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            guard try await a.status().rings?.isActive == true else { return }
            try await a.shell("echo 1 > f; mv f g; sync g")
            let classes = try await world.shell(
                """
                for t in /proc/\(try #require(a.processID))/task/*; do
                    case $(cat $t/comm) in fuse-core-*) ionice -p ${t##*/} ;; esac
                done
                """)
            let mine = try await world.shell("nice=$(nice); echo best-effort: prio $(((nice + 20) / 5))")
            #expect(Set(classes.split(separator: "\n")) == [mine[...]])
        }
    }

    /// Threads that serve a core are bound to it, and have the lowest priority. Their helpers are not: pools create
    /// threads, and start processes, from any thread.
    @Test func onlyRequestThreadsAreBoundToACore() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("for n in $(seq 60); do head -c 150000 /dev/urandom > f$n; done")
            try await world.settle(a, b)
            try await b.shell("for n in $(seq 60); do cat f$n > /dev/null & done; wait; touch g; mv g h")
            let daemon = try #require(b.processID)
            let all = try await world.shell("grep Cpus_allowed_list /proc/self/status | cut -f2")
            try await world.eventually("only those are bound") {
                // A thread may end during the check.
                let threads = try await world.shell(
                    "for t in /proc/\(daemon)/task/*; do "
                        + "echo \"$(cat $t/comm) $(grep Cpus_allowed_list $t/status | cut -f2)"
                        + " $(sed 's/.*) //' $t/stat | cut -d' ' -f39)\"; done 2>/dev/null; :")
                let others = threads.split(separator: "\n").filter {
                    !$0.hasPrefix("fuse-core-") && !$0.hasPrefix("fuse-queue-")
                }
                return others.count > 5 && others.allSatisfy { $0.hasSuffix(" \(all) 0") || $0.hasSuffix(" ") }
            }
        }
    }

    @Test(arguments: ["on", "off"]) func plainPolicyBindsNoThreadAndServes(rings: String) async throws {
        try await World.run { world in
            let a = try world.device("a")
            try await a.mount(environment: ["UBIQUITY_SERVING": "plain", "UBIQUITY_IO_URING": rings])
            try await a.shell("for n in $(seq 50); do echo $n > f$n; mv f$n g$n; grep -qx $n g$n; rm g$n; done")
            let daemon = try #require(a.processID)
            // `chrt -ap` names the scheduling class of each thread, `taskset -ap` its cores.
            let odd = try await world.shell(
                """
                chrt -ap \(daemon) | grep -c SCHED_IDLE || true
                taskset -ap \(daemon) | sed 's/.*: //' | sort -u | wc -l
                """)
            #expect(odd == "0\n1", "no thread runs in the idle class, and all have the same cores")
        }
    }

    @Test func unknownMeasureRefusesTheMount() async throws {
        try await World.run { world in
            let a = try world.device("a")
            let outcome = try await a.tryMount(environment: ["UBIQUITY_SERVING": "quick"])
            #expect(outcome.status != 0)
            #expect(outcome.err.contains("UBIQUITY_SERVING must be"), "\(outcome)")
        }
    }
}
