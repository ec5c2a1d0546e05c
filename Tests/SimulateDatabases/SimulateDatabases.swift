import UbiquityDatabase

@main
struct SimulateDatabases {
    static func main() {}
}
