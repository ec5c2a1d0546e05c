import UbiquityDatabase

@main
struct DatabaseBenchmark {
    static func main() {}
}
