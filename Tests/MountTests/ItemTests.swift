import Foundation
import Glibc
import Testing
import Ubiquity
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// A program's queries about items, containers and the account, on real mounts.
@Suite struct ItemTests {
    private let files = UbiquityFileManager.default

    private func values(_ path: String, in device: Device) throws -> UbiquitousItemResourceValues {
        try UbiquitousItem(at: URL(filePath: "\(device.mountPoint)/\(path)")).resourceValues()
    }

    private func code(_ body: () async throws -> Void) async -> UbiquitousFileError.Code? {
        do { try await body() } catch { return (error as? UbiquitousFileError)?.code }
        return nil
    }

    @Test("SA-01, SA-02, SA-03, SA-05, CI-22: resource values follow downloads and uploads, and cost no download")
    func resourceValues() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo text > f; mkdir x.nosync; echo l > x.nosync/l; ln -s f link; mkdir p.rtfd; echo t > p.rtfd/t")
            try await world.settle(a, b)
            let url = URL(filePath: "\(b.mountPoint)/f")
            // So that nothing is downloaded automatically: no news, or an answer without news.
            try await b.ubiquity("offline", "")
            let before = try await b.status().bytesReceived
            var f = try values("f", in: b)
            #expect(f.isUbiquitousItem == true && f.ubiquitousItemDownloadingStatus == .notDownloaded)
            #expect(f.ubiquitousItemIsDownloaded == false && f.ubiquitousItemPercentDownloaded == 0)
            #expect(f.ubiquitousItemIsUploaded == true && f.ubiquitousItemPercentUploaded == 100)
            #expect(f.ubiquitousItemIsDownloading == false && f.ubiquitousItemIsUploading == false)
            #expect(f.ubiquitousItemDownloadRequested == false && f.ubiquitousItemHasUnresolvedConflicts == false)
            #expect(f.ubiquitousItemIsExcludedFromSync == false && f.ubiquitousItemContainerDisplayName == "default")
            #expect(f.ubiquitousItemDownloadingError == nil && f.ubiquitousItemUploadingError == nil)
            #expect(f.ubiquitousItemIsShared == false)
            #expect(f.ubiquitousItemSupportedSyncControls?.contains(.pauseSync) == true)
            #expect(f.ubiquitousItemIsSyncPaused == false && f.ubiquitousSharedItemCurrentUserRole == nil)
            #expect(try values("p.rtfd", in: b).ubiquitousItemDownloadingStatus == .notDownloaded)
            #expect(try values("link", in: b).isUbiquitousItem == true)
            #expect(try await b.status().bytesReceived == before)
            try await b.ubiquity("online", "")
            // Only the requested values are returned.
            let one = try await UbiquitousItem(at: url).resourceValues(forKeys: [.isUploaded])
            #expect(one.ubiquitousItemIsUploaded == true && one.isUbiquitousItem == nil)
            let kept = try values("x.nosync/l", in: a)
            #expect(kept.isUbiquitousItem == false && kept.ubiquitousItemIsExcludedFromSync == true)
            let outside = try await UbiquitousItem(at: URL(filePath: world.folder)).resourceValues()
            #expect(outside.isUbiquitousItem == false && outside.ubiquitousItemIsUploaded == nil)
            #expect(await code { _ = try values("missing", in: b) } == .fileNoSuchFile)
            #expect(files.isUbiquitousItem(at: url) && !files.isUbiquitousItem(at: URL(filePath: "/missing")))
            // A download, and an eviction.
            try await files.startDownloadingUbiquitousItem(at: url)
            try await world.eventually("it is here") { try values("f", in: b).ubiquitousItemDownloadingStatus == .current }
            try await files.evictUbiquitousItem(at: url)
            #expect(try values("f", in: b).ubiquitousItemDownloadingStatus == .notDownloaded)
            // Offline, the values have the reason, and a change that is not uploaded says so.
            try await b.ubiquity("offline", "")
            #expect(try await b.attempt("cat f").status != 0)
            f = try values("f", in: b)
            #expect(f.ubiquitousItemDownloadingError?.code == .ubiquitousFileUbiquityServerNotAvailable, "\(f)")
            try await b.shell("echo new > g")
            #expect(try values("g", in: b).ubiquitousItemIsUploaded == false)
            let refusal = await code { try await files.evictUbiquitousItem(at: URL(filePath: "\(b.mountPoint)/g")) }
            #expect([.fileLocking, .fileWriteNoPermission].contains(refusal))
            try await b.ubiquity("online", "")
            try await b.wait("--uploaded", "g")
            try await b.ubiquity("pin", "g")
            #expect(
                await code { try await files.evictUbiquitousItem(at: URL(filePath: "\(b.mountPoint)/g")) }
                    == .fileWriteNoPermission)
            #expect(
                await code { try await files.evictUbiquitousItem(at: URL(filePath: "\(world.folder)/a.state")) }
                    == .ubiquitousFileUbiquityServerNotAvailable)
        }
    }

    @Test("CI-20, CI-21: items move into a container and out of it whole, and never empty")
    func setUbiquitous() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await world.shell(
                """
                cd '\(world.folder)'; echo text > f; touch -d 2020-01-02T03:04:05Z f; chmod 640 f; setfattr -n user.note -v hi f
                mkdir d d/e; echo 1 > d/e/1; ln -s e d/link
                """)
            func local(_ path: String) -> URL { URL(filePath: "\(world.folder)/\(path)") }
            func cloud(_ path: String) -> URL { URL(filePath: "\(a.mountPoint)/\(path)") }
            #expect(
                await code { try await files.setUbiquitous(true, itemAt: local("f"), destinationURL: cloud("Documents/f")) }
                    == .fileNoSuchFile)
            try await a.shell("mkdir Documents")
            try await files.setUbiquitous(true, itemAt: local("f"), destinationURL: cloud("Documents/f"))
            try await files.setUbiquitous(true, itemAt: local("d"), destinationURL: cloud("Documents/d"))
            #expect(try await world.shell("cd '\(world.folder)'; ls -d f d 2>/dev/null || :").isEmpty)
            try await world.settle(a, b)
            let found = try await b.shell(
                "cd Documents; ls -A; cat f d/link/1; stat -c '%a %Y' f; getfattr --only-values -n user.note f")
            #expect(found == "d\nf\ntext\n1\n640 1577934245\nhi")
            // Not twice, not over another item, and not to a place outside of containers.
            #expect(
                await code { try await files.setUbiquitous(true, itemAt: cloud("Documents/f"), destinationURL: cloud("g")) }
                    == .fileWriteFileExists)
            try await world.shell("echo other > '\(world.folder)/f'; echo l > '\(world.folder)/l'")
            #expect(
                await code { try await files.setUbiquitous(true, itemAt: local("f"), destinationURL: cloud("Documents/f")) }
                    == .fileWriteFileExists)
            #expect(
                await code { try await files.setUbiquitous(true, itemAt: local("l"), destinationURL: local("m")) }
                    == .fileWriteInvalidFileName)
            #expect(
                await code { try await files.setUbiquitous(false, itemAt: local("l"), destinationURL: local("m")) }
                    == .featureUnsupported)
            // Out of the container again, from a device with a placeholder.
            try await b.shell("exec 3<Documents; true")
            try await b.ubiquity("evict", "Documents")
            #expect(try values("Documents/f", in: b).ubiquitousItemDownloadingStatus == .notDownloaded)
            for name in ["f", "d"] {
                let source = URL(filePath: "\(b.mountPoint)/Documents/\(name)")
                try await files.setUbiquitous(false, itemAt: source, destinationURL: local("out-\(name)"))
            }
            #expect(try await world.shell("cd '\(world.folder)'; cat out-f out-d/link/1; stat -c %Y out-f") == "text\n1\n1577934245")
            #expect(!files.isUbiquitousItem(at: local("out-f")))
            try await world.settle(b, a)
            #expect(try await a.shell("ls -A Documents").isEmpty)
        }
    }

    @Test("CI-05, CI-08, CI-09, CI-11: containers are found by name; the identity token comes and goes with the account")
    func identity() async throws {
        try await World.run { world in
            let name = "identity-\(ProcessHost.id)"
            let data = world.folder + "/served"
            let server = try world.start([World.program, "serve", "--data", data, "--listen", "127.0.0.1:0"])
            try await world.eventually("it listens") { server.outputSoFar.contains("listening on ") }
            let line = try #require(server.outputSoFar.split(separator: "\n").first { $0.hasPrefix("listening on ") })
            let address = String(line.dropFirst("listening on ".count))
            try await world.shell(
                """
                '\(World.program)' account create ann --data '\(data)' > '\(world.folder)/token'
                """)
            let (a, b) = (try world.device("a"), try world.device("b"))
            let url = address.hasPrefix("http") ? address : "http://\(address)"
            let login = try await world.ubiquity(
                "login", url, "--account", "ann", "--token-file", world.folder + "/token", "--state", a.state)
            try #require(login.status == 0, "\(login)")
            #expect(await files.url(forUbiquityContainerIdentifier: name) == nil)
            #expect(files.ubiquityIdentityToken(ofContainer: name) == nil)
            let told = Lock<[UbiquityIdentityToken?]>([])
            let watch = Task {
                for await token in files.ubiquityIdentityChanges(ofContainer: name) { told.withLock { $0.append(token) } }
            }
            defer { watch.cancel() }
            try await world.eventually("the sign-out is reported") { told.withLock { $0 == [nil] } }
            try await a.mount(["--container", name])
            let token = try #require(files.ubiquityIdentityToken(ofContainer: name))
            #expect(await files.url(forUbiquityContainerIdentifier: name)?.path == a.mountPoint)
            #expect(try files.url(forUbiquityContainerOf: URL(filePath: a.mountPoint + "/x/y"))?.path == a.mountPoint)
            try await world.eventually("the account is reported") { told.withLock { $0 == [nil, token] } }
            #expect(UbiquityFileManager(applicationIdentifier: "other").ubiquityIdentityToken(ofContainer: name) != token)
            // A stopped daemon is not asked.
            let daemon = try #require(World.holder(of: "\(a.state)/ann/\(name)/lock"))
            kill(daemon, SIGSTOP)
            #expect(files.ubiquityIdentityToken(ofContainer: name) == token)
            kill(daemon, SIGCONT)
            // The token is the same after a remount, different on another device, and nil without the account.
            #expect(try JSONDecoder().decode(UbiquityIdentityToken.self, from: JSONEncoder().encode(token)) == token)
            try await a.unmount()
            try await b.mount(["--container", name])
            let other = try #require(files.ubiquityIdentityToken(ofContainer: name))
            #expect(other != token)
            try await b.unmount()
            try await a.mount(["--container", name])
            #expect(files.ubiquityIdentityToken(ofContainer: name) == token)
            try await world.eventually("it is reported again") { told.withLock { $0.last == token } }
            let deleted = try await world.ubiquity("account", "delete", "ann", "--yes", "--data", data)
            try #require(deleted.status == 0, "\(deleted)")
            // The next exchange with the cloud reports it.
            try await a.shell("echo text > f")
            try await world.eventually("nobody is signed in", within: 60) { files.ubiquityIdentityToken(ofContainer: name) == nil }
            try await world.eventually("the change is reported") { told.withLock { $0.last == .some(nil) } }
            #expect(try await world.ubiquity("unmount", a.mountPoint).status == 0)
        }
    }
}
