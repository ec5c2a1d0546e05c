extension World {
    /// The environment of a program with clocks that a library shifts.
    /// - Parameter variables: the library's settings.
    func shiftedClock(_ variables: [String: String]) async throws -> [String: String] {
        // A killed process under it leaves a file with its id, and a later process with that id exits because of it.
        try await shell(
            """
            for file in /dev/shm/faketime_shm_*; do
                id=${file##*_}
                [ -e "/proc/$id" ] || rm -f "$file" "/dev/shm/sem.faketime_sem_$id"
            done
            """)
        let library = [
            "LD_PRELOAD": "libfaketime.so.1", "LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu/faketime",
        ]
        return library.merging(variables) { $1 }
    }
}
