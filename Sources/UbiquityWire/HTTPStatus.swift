package import UbiquityCore

extension UbiquityError.Code {
    /// The HTTP status that answers with this failure. The body says more (`WireFailure`).
    package var httpStatus: Int {
        switch self {
        case .invalid, .invalidName, .nameTooLong, .crossesContainers, .noSuchAttribute: 400
        case .signedOut: 401
        case .accessDenied, .notPermitted: 403
        case .notFound: 404
        case .alreadyExists, .notDirectory, .isDirectory, .directoryNotEmpty, .busy, .stale, .inUse, .missingChunks,
            .outdatedCommit, .packageConflict, .notUploadedYet:
            409
        case .feedCompacted: 410
        case .tooLarge: 413
        case .notSupported: 415
        case .tooManyRequests: 429
        case .io, .damaged, .newerFormat: 500
        case .offline, .cancelled, .interrupted, .wouldBlock, .tooManyOpenFiles: 503
        case .timedOut: 504
        case .noSpace, .quotaExceeded: 507
        }
    }

    /// What the cloud says of a request that its HTTP library refuses.
    package init(httpStatus status: Int) {
        switch status {
        case 401: self = .signedOut
        case 403: self = .accessDenied
        case 404: self = .notFound
        case 408, 504: self = .timedOut
        case 413: self = .tooLarge
        case 429: self = .tooManyRequests
        case 400...499: self = .invalid
        default: self = .offline
        }
    }

    /// The failure of an answer whose body says nothing that can be read. The cloud always says more: something between
    /// it and the device (a proxy, a captive portal) has made it, so the cloud is away.
    fileprivate init(foreignStatus status: Int) {
        switch status {
        case 408, 504: self = .timedOut
        // A proxy's own limit: what is smaller passes.
        case 413: self = .tooLarge
        default: self = .offline
        }
    }
}

extension WireFailure {
    /// What an answer that is not a success says, by its body if that can be read, else by its status.
    package init(status: Int, body: [UInt8], as format: WireFormat?) {
        if let format, let failure = try? WireFailure(wire: body, as: format) {
            self = failure
        } else {
            let code = UbiquityError.Code(foreignStatus: status)
            self.init(error: UbiquityError(code, "what answers is not the cloud itself (status \(status))"))
        }
    }
}
