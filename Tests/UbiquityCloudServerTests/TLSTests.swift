import AsyncHTTPClient
import NIOSSL
import Testing

@testable import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// The versions of TLS.
@Suite struct TLSTests {
    @Test func serverRefusesVersionsBefore12() throws {
        let folder = try TestFolder()
        let (certificate, key) = (folder.path + "/certificate", folder.path + "/key")
        try SmallFile.publish(Array(TestCertificate.certificate.utf8), at: certificate)
        try SmallFile.publish(Array(TestCertificate.key.utf8), at: key)
        #expect(try ServerCertificate.configuration(certificate, key).minimumTLSVersion == .tlsv12)
    }

    @Test(arguments: [nil, TestCertificate.certificate]) func clientRefusesVersionsBefore12(
        certificates: String?
    ) throws {
        let address = CloudAddress.web(url: "https://nas:7070", certificates: certificates)
        #expect(try Transport.configuration(address).tlsConfiguration?.minimumTLSVersion == .tlsv12)
    }

    /// As after SIGHUP. Connections that are open stay, and files that cannot be read change nothing.
    @Test func replacedCertificateIsUsedAfterAReload() async throws {
        let folder = try TestFolder()
        let (certificate, key) = (folder.path + "/certificate", folder.path + "/key")
        func publish(_ first: String, _ second: String) throws {
            try SmallFile.publish(Array(first.utf8), at: certificate)
            try SmallFile.publish(Array(second.utf8), at: key)
        }
        try publish(TestCertificate.certificate, TestCertificate.key)
        let running = try await Harness.start(
            .tls(host: "127.0.0.1", port: 0, certificate: certificate, key: key), cloud: FakeCloud(), folder: folder,
            certificates: TestCertificate.certificate)
        let early = try running.client()
        _ = try await early.open()
        guard case .web(let url, _) = running.address else { throw HarnessFailure(reason: "no URL") }
        let later = CloudAddress.web(url: url, certificates: TestCertificate.laterCertificate)
        func open(_ address: CloudAddress) async -> UbiquityError.Code? {
            do {
                let client = try CloudClient(
                    address, container: RunningServer.containerName, token: FakeCloud.token,
                    device: RunningServer.device, deviceName: "")
                defer { Task { await client.shutdown() } }
                _ = try await client.open()
                return nil
            } catch { return (error as? UbiquityError)?.code }
        }
        #expect(await open(later) == .offline)
        try publish("no certificate", "no key")
        running.server.reloadCertificates()
        #expect(await open(running.address) == nil)
        try publish(TestCertificate.laterCertificate, TestCertificate.laterKey)
        running.server.reloadCertificates()
        #expect(await open(later) == nil)
        #expect(await open(running.address) == .offline)
        _ = try await early.usage()
        await early.shutdown()
        running.server.stop()
        try await running.task.value
    }
}
