package import UbiquityCore

extension UbiquityError.Code {
    /// The HTTP status of an answer with this failure. The body has the details (`WireFailure`).
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

    /// The code for a request that the cloud's HTTP library refuses.
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

    /// The code for an answer without a readable failure. The cloud always sends one, so something else (a proxy, a
    /// captive portal) has answered, and the cloud is unreachable.
    fileprivate init(foreignStatus status: Int) {
        switch status {
        case 408, 504: self = .timedOut
        // A proxy's own limit: a smaller request passes.
        case 413: self = .tooLarge
        default: self = .offline
        }
    }
}

extension WireFailure {
    /// The failure of an answer that is not a success, from its body if that is readable, else from its status.
    package init(status: Int, body: [UInt8], as format: WireFormat?) {
        if let format, let failure = try? WireFailure(wire: body, as: format) {
            self = failure
        } else {
            let code = UbiquityError.Code(foreignStatus: status)
            self.init(error: UbiquityError(code, "the answer is not from the cloud itself (status \(status))"))
        }
    }
}
