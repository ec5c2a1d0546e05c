/// A self-made certificate for 127.0.0.1, valid from 2020 to 2120, and its key. They protect nothing.
enum TestCertificate {
    static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIBbzCCARagAwIBAgICEAEwCgYIKoZIzj0EAwIwGDEWMBQGA1UEAwwNdWJpcXVp
        dHkgdGVzdDAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowGDEWMBQG
        A1UEAwwNdWJpcXVpdHkgdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABCNW
        K4hy8fcyGuofytUaYSITnbRP3HJv6SgCs1EQ9fd/i7pYyB15NkM06OkuFwI0DELr
        DPIl+8D4ecizXceYFuqjTjBMMBoGA1UdEQQTMBGHBH8AAAGCCWxvY2FsaG9zdDAP
        BgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBRusU905kDVdpva9SrBfUyF3R+DSjAK
        BggqhkjOPQQDAgNHADBEAiBrn1nlwRLPCEp3tx9g7YwbV67lZQvcR2/0FKZtAo0G
        CQIgULBU4XmxGfxKCvh/YhVOXfkR2CY0UfQzSqQ/uwkYgKg=
        -----END CERTIFICATE-----

        """

    static let key = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgTtZXoy7059NcNNNJ
        k7nBLiosO3h4nJf3Znx1w2fvS2GhRANCAAQjViuIcvH3MhrqH8rVGmEiE520T9xy
        b+koArNREPX3f4u6WMgdeTZDNOjpLhcCNAxC6wzyJfvA+HnIs13HmBbq
        -----END PRIVATE KEY-----

        """

    /// Another one of the same kind, which takes its place.
    static let laterCertificate = """
        -----BEGIN CERTIFICATE-----
        MIIBdDCCARqgAwIBAgICEAEwCgYIKoZIzj0EAwIwGjEYMBYGA1UEAwwPdWJpcXVp
        dHkgdGVzdCAyMCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAaMRgw
        FgYDVQQDDA91YmlxdWl0eSB0ZXN0IDIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
        AAQSlnT2AjjGnC/0nSlZ1BQZwmP71D0l0vIH8YfNRYqilbUSP3eEck5ZkYu1kwAt
        BMKY6RuSVc5/Ivt4mzx7ujpGo04wTDAaBgNVHREEEzARhwR/AAABgglsb2NhbGhv
        c3QwDwYDVR0TAQH/BAUwAwEB/zAdBgNVHQ4EFgQUPKfoafTpoRLQnc2ynNoKt74Q
        MKEwCgYIKoZIzj0EAwIDSAAwRQIgbzS2oY7QbheDbJk+0bZhoshncg2IhZVpGEIu
        pdsfcl4CIQDwxWlJEcrh2kxrVEjLh9542Wf6KZt0j/ZmnyIzwkzN2Q==
        -----END CERTIFICATE-----

        """

    static let laterKey = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgDYCkfvlZ5JU5S+K7
        n+jkZte0hVTjbKWhr2W8sd+T+xmhRANCAAQSlnT2AjjGnC/0nSlZ1BQZwmP71D0l
        0vIH8YfNRYqilbUSP3eEck5ZkYu1kwAtBMKY6RuSVc5/Ivt4mzx7ujpG
        -----END PRIVATE KEY-----

        """
}
