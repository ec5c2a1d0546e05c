import AsyncHTTPClient
import NIOSSL
import Testing

@testable import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquitySystem

/// The versions of TLS.
@Suite struct TLSTests {
    @Test func serverRefusesVersionsBefore12() throws {
        let folder = try TestFolder()
        let (certificate, key) = (folder.path + "/certificate", folder.path + "/key")
        try SmallFile.publish(Array(TestCertificate.certificate.utf8), at: certificate)
        try SmallFile.publish(Array(TestCertificate.key.utf8), at: key)
        #expect(try Listener.tls(certificate: certificate, key: key).minimumTLSVersion == .tlsv12)
    }

    @Test(arguments: [nil, TestCertificate.certificate]) func clientRefusesVersionsBefore12(
        certificates: String?
    ) throws {
        let address = CloudAddress.web(url: "https://nas:7070", certificates: certificates)
        #expect(try Transport.configuration(address).tlsConfiguration?.minimumTLSVersion == .tlsv12)
    }
}
