/// Whether a client reads its answers. Checked once per allowed period of silence.
struct AnswerProgress {
    /// Bytes handed to the kernel by the last check.
    private var sent: Int

    /// - Parameters:
    ///   - written: bytes of answers since the connection began.
    ///   - waiting: those of them that the kernel has not taken yet.
    init(written: Int, waiting: Int) { sent = written - waiting }

    /// Whether bytes wait and none was sent since the last check.
    mutating func isStuck(written: Int, waiting: Int) -> Bool {
        let before = sent
        sent = written - waiting
        return waiting > 0 && sent <= before
    }
}
